package firstcontact

import (
	"fmt"
	"math"
	"strings"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// Verdict is one thing that a Record shows.
type Verdict struct {
	Code Code
	Step Step // that showed it
	A, B int  // axis, joint, leg, button, cell: what it is about, and what took its place; -1 none
	// Value is the measured figure in its unit, Want what it should be.
	Value, Want float64
	part        int     // of a step of the remote
	also        stepSet // further steps that it explains
}

// Of says whether a step shows it, or is explained by it.
func (v *Verdict) Of(s Step) bool { return v.Step == s || v.also&setOf(s) != 0 }

// stepSet has a bit for each step.
type stepSet uint32

func setOf(s Step) stepSet { return 1 << s }

const maxVerdicts = 96

// Limits of what is measured at rest.
const (
	quatNorm     = 0.2  // from 1
	accNorm      = 1.0  // m/s2 from gravity
	gravity      = 9.81 // m/s2
	levelTilt    = 0.3  // rad, with which it would not stand up either
	levelAskew   = 0.15 // rad
	gyroBias     = 0.1  // rad/s
	gyroNoise    = 0.1  // rad/s
	accNoise     = 1.0  // m/s2
	quatNoise    = 0.01 // rad
	qNoise       = 0.01 // rad
	dqNoise      = 1.0  // rad/s
	stopMargin   = 0.15 // rad beyond the mechanical stops that an encoder may say
	tempHot      = 65   // C
	socLow       = 20   // %
	cellLo       = 2500 // mV, what a lithium cell can have
	cellHi       = 4500
	cellsUneven  = 200  // mV between the highest and the lowest
	gravityAgree = 0.15 // rad
)

// Verdicts names what a Record shows, errors and warnings alike, appended to out. Several causes may be named; none is named twice for
// the same thing.
func (r *Record) Verdicts(out []Verdict, cfg *Config) []Verdict {
	if r.Results[Frame] == Failed {
		v := Verdict{Code: MotorModeDropped, Step: Frame, A: -1, B: -1}
		for i, m := range r.Frame.Modes {
			if m != wire.ModeServo {
				v.Value++
				v.A = i
			}
		}
		out = append(out, v)
	}
	motionsSay := r.turns()
	if r.Results[Rest] == Passed || r.Results[Rest] == Failed {
		n := len(out)
		out = r.rest(out, cfg)
		out = motionsSay.without(out, n)
	}
	out = motionsSay.gravity(out)
	out = motionsSay.verdicts(out)
	n := len(out)
	out = r.joints(out)
	out = inRange(out, n)
	out = r.feet(out)
	out = r.remote(out)
	for s := range Step(StepCount) {
		if r.Results[s] != TimedOut {
			continue
		}
		if s.Group() == Feet && r.wornFoot(s.index()) || s.Group() == Joints && r.Joints[s.index()].Stuck { // that has been said
			continue
		}
		out = append(out, Verdict{Code: NothingSeen, Step: s, A: -1, B: -1})
	}
	return out
}

// Pass says whether the robot may stand: every step is done, its figures show so, and nothing that was seen is a fault. It believes no
// Result: a Record may come from a file.
func (r *Record) Pass(cfg *Config) bool {
	var found [maxVerdicts]Verdict
	for _, v := range r.Verdicts(found[:0], cfg) {
		if Codes[v.Code].Level == Fault {
			return false
		}
	}
	for s := range Step(StepCount) {
		done := false
		switch r.Results[s] {
		case Passed:
			done = r.shows(s)
		case NotAsked:
			done = r.needless(s, cfg)
		case TimedOut:
			done = s.Group() == Feet && r.wornFoot(s.index()) // no more than a warning: it walks without
		}
		if !done {
			return false
		}
	}
	return true
}

// shows says that a step's figures are those of one that has passed.
func (r *Record) shows(s Step) bool {
	i := s.index()
	as := func(f *MoveFigures, sign float64) bool { return f.Moved == i && f.Delta[i]*sign > 0 }
	switch s.Group() {
	case Motions:
		return r.Motions[i].Seconds > 0 && r.judge(i) == 0
	case Joints:
		return as(&r.Joints[i], handSign(i)) && r.speedAgrees(i)
	case Feet:
		return as(&r.Feet[i], 1)
	case Remote:
		return remoteRight(s, &r.Remote)
	}
	if s == Rest {
		return r.Rest.States > 0
	}
	for _, m := range r.Frame.Modes {
		if m != wire.ModeServo {
			return false
		}
	}
	return true
}

// speedAgrees says that a joint's speed told of its move what its angle did, as far as the speed's noise lets one know.
func (r *Record) speedAgrees(joint int) bool {
	const (
		lo, hi  = 0.7, 1.4
		stateS  = 0.002 // s from state to state
		atMost  = 1.2   // of the way: the wrong sign is seen in any noise
		nothing = 0.25  // of what is wanted: too little to judge by, as after a gap in the states
	)
	f := &r.Joints[joint]
	way := math.Abs(f.Turned)
	by := f.BySpeed * math.Copysign(1, f.Turned)
	noise := min(4*r.Rest.Dq[joint].SD*math.Sqrt(stateS*f.WayS), atMost*way)
	return way > nothing*jointWant && by > lo*way-noise && by < hi*way+noise
}

// deadFoot: a foot's sensor said the same all the time, at rest and when it was asked to be pressed. One that lives may be another foot's,
// and has to be seen pressed.
func (r *Record) deadFoot(leg int) bool {
	return r.Results[FirstFoot+Step(leg)] == TimedOut && r.Feet[leg].Stuck && r.Rest.Foot[leg].SD == 0
}

// muteFoot: a foot's sensor did not answer while it was asked to be pressed, though it may flicker, and each of the other three did as
// itself: so it is none of theirs, and their feet are not its.
func (r *Record) muteFoot(leg int) bool {
	const longS = 3 // for a person to press it
	f := &r.Feet[leg]
	if r.Results[FirstFoot+Step(leg)] != TimedOut || !(f.AskedS >= longS) || !(f.Reach < footMute) {
		return false
	}
	for i := range r.Feet {
		if s := FirstFoot + Step(i); i != leg && !(r.Results[s] == Passed && r.shows(s)) {
			return false
		}
	}
	return true
}

// wornFoot: a foot's sensor says nothing, and that is no more than a warning.
func (r *Record) wornFoot(leg int) bool { return r.deadFoot(leg) || r.muteFoot(leg) }

// silentFeet: no foot sensor has said anything yet.
func (r *Record) silentFeet() bool {
	for i := range r.Feet {
		if f := &r.Feet[i]; r.Rest.Foot[i].SD != 0 || f.Moved >= 0 || f.Blur || r.Results[FirstFoot+Step(i)] == TimedOut && !f.Still {
			return false
		}
	}
	return true
}

// footless: none did when feet were asked to be pressed, and so many that it is not one dead sensor among some that say the same as long as
// nobody presses them.
func (r *Record) footless() bool {
	asked := 0
	for i := range r.Feet {
		if r.deadFoot(i) {
			asked++
		}
	}
	return asked >= 2 && r.silentFeet()
}

// needless says that a step makes no sense on this robot, or for who works with it.
func (r *Record) needless(s Step, cfg *Config) bool {
	switch s.Group() {
	case Feet:
		return r.footless()
	case Remote:
		return cfg.WithoutRemote || s == RemoteSticks && cfg.SticksIdle
	}
	return false
}

// rest names what the sensors show while it hangs still.
func (r *Record) rest(out []Verdict, cfg *Config) []Verdict {
	f := &r.Rest
	add := func(c Code, about int, value, want float64) {
		out = append(out, Verdict{Code: c, Step: Rest, A: about, B: -1, Value: value, Want: want})
	}
	if f.NotFinite > 0 {
		add(StateNotFinite, -1, float64(f.NotFinite), 0)
	}
	if f.QuatNorm[0] < 1-quatNorm || f.QuatNorm[1] > 1+quatNorm {
		n := f.QuatNorm[0]
		if f.QuatNorm[1] > 1+quatNorm {
			n = f.QuatNorm[1]
		}
		add(QuaternionBad, -1, n, 1)
	} else if tilt := angle(down(f.Quat), vec{0, 0, -1}); tilt > levelTilt {
		add(Tilt, -1, tilt, 0)
	} else if tilt > levelAskew {
		add(HangsAskew, -1, tilt, 0)
	}
	for i, stuck := range f.Stuck {
		if stuck && !(i == 0 && f.QuatNorm[1] < 1-quatNorm) { // that is said above
			add(IMUStuck, i, 0, 0)
			out[len(out)-1].also = setOf(NoseDown) | setOf(RollLeft) | setOf(YawLeft)
		}
	}
	var acc vec
	noisy := f.QuatSD > quatNoise
	for i := range 3 {
		acc[i] = f.Acc[i].Mean
		noisy = noisy || f.Gyro[i].SD > gyroNoise || f.Acc[i].SD > accNoise
		if math.Abs(f.Gyro[i].Mean) > gyroBias && !f.Swayed { // what turns has no bias to be known
			add(GyroBias, i, f.Gyro[i].Mean, 0)
		}
	}
	if noisy {
		add(IMUNoisy, -1, max(f.Gyro[0].SD, f.Gyro[1].SD, f.Gyro[2].SD), 0)
	}
	if n := norm(acc); math.Abs(n-gravity) > accNorm {
		add(AccNorm, -1, n, gravity)
	}
	if f.Swayed {
		add(NeverStill, -1, 0, 0)
	}
	hot, unknown := -1, -1
	for i := range go1.Joints {
		q := f.Q[i].Mean
		if q < float64(go1.StopLower[i])-stopMargin || q > float64(go1.StopUpper[i])+stopMargin {
			add(JointRange, i, q, 0)
		}
		if f.Crept[i] {
			add(NeverStill, i, 0, 0)
		}
		if f.Folded[i] {
			add(KneeFolded, i, q, 0)
		}
		if f.Q[i].SD > qNoise || f.Dq[i].SD > dqNoise {
			add(JointNoisy, i, f.Dq[i].SD, 0)
		}
		if f.MotorC[i] == 0 {
			unknown = i
		}
		if f.MotorC[i] >= tempHot && (hot < 0 || f.MotorC[i] > f.MotorC[hot]) {
			hot = i
		}
	}
	if unknown >= 0 {
		add(MotorTempUnknown, unknown, 0, 0)
	}
	if hot >= 0 {
		add(MotorHot, hot, float64(f.MotorC[hot]), 0)
	}
	if r.silentFeet() {
		add(FootForceZero, -1, 0, 0)
	}
	return f.battery(out, cfg.Cells)
}

// battery looks at cells from the first: a pack has fewer than the message has room for, but no gap. want is how many it has, 0 where
// nobody knows.
func (f *RestFigures) battery(out []Verdict, want int) []Verdict {
	last, missing, at := -1, 0, -1
	lo, hi := cellHi, cellLo
	for i, mv := range f.Cells {
		if mv > cellLo && mv < cellHi {
			last, lo, hi = i, min(lo, mv), max(hi, mv)
		}
	}
	for i := range max(last, want, 0) {
		if mv := f.Cells[i]; !(mv > cellLo && mv < cellHi) {
			missing, at = missing+1, i
		}
	}
	switch {
	case last < 0:
		return append(out, Verdict{Code: BatteryUnknown, Step: Rest, A: -1, B: -1})
	case missing > 0:
		out = append(out, Verdict{Code: CellsMissing, Step: Rest, A: at, B: -1, Value: float64(missing), Want: 0})
	case hi-lo > cellsUneven:
		out = append(out, Verdict{Code: CellsUneven, Step: Rest, A: -1, B: -1, Value: float64(hi - lo), Want: cellsUneven})
	}
	if f.SOC <= socLow {
		out = append(out, Verdict{Code: BatteryLow, Step: Rest, A: -1, B: -1, Value: float64(f.SOC), Want: socLow})
	}
	return out
}

// joints reads the permutation that the twelve steps show.
func (r *Record) joints(out []Verdict) []Verdict {
	var handled [go1.Joints]bool
	is := func(asked, moved int) bool { return r.Joints[asked].Moved == moved }
	out = r.exchanged(out)
	for a := range go1.Legs {
		for b := a + 1; b < go1.Legs; b++ {
			swapped := true
			for j := range go1.JointsInLeg {
				swapped = swapped && is(3*a+j, 3*b+j) && is(3*b+j, 3*a+j)
			}
			if swapped {
				v := Verdict{Code: LegsSwapped, Step: FirstJoint + Step(3*a), A: a, B: b}
				for j := range go1.JointsInLeg {
					handled[3*a+j], handled[3*b+j] = true, true
					v.also |= setOf(FirstJoint+Step(3*a+j)) | setOf(FirstJoint+Step(3*b+j))
				}
				out = append(out, v)
			}
		}
	}
	for i := range r.Joints {
		f := &r.Joints[i]
		step := FirstJoint + Step(i)
		other := f.Moved
		switch {
		case f.Stuck:
			out = append(out, Verdict{Code: JointStuck, Step: step, A: i, B: -1})
			continue
		case f.Blur && other < 0:
			out = append(out, Verdict{Code: JointNotAlone, Step: step, A: i, B: -1, Value: f.Delta[i], Want: jointWant})
			continue
		case other < 0:
			continue
		}
		swapped := other/go1.JointsInLeg == i/go1.JointsInLeg && is(other, i)
		if other == i && f.Delta[i]*handSign(i) > 0 && !r.speedAgrees(i) {
			out = append(out, Verdict{Code: JointSpeed, Step: step, A: i, B: -1, Value: f.BySpeed, Want: f.Turned})
		}
		// Which way a joint should have moved that has nothing to do with the one that was asked for, nobody knows; nor a hip that is
		// exchanged with one of the other side: outwards is + of the one and - of the other, and which of them the hand was at, a person
		// may have mistaken.
		unknown := other != i && i%go1.JointsInLeg == go1.Hip && otherSide(i/go1.JointsInLeg, other/go1.JointsInLeg)
		if sign := handSign(i); (other == i || handled[i] || swapped) && !unknown && f.Delta[other]*sign < 0 {
			out = append(out, Verdict{Code: JointReversed, Step: step, A: i, B: -1, Value: f.Delta[other], Want: sign * math.Abs(f.Delta[other])})
		}
		switch {
		case other == i || handled[i]:
		case swapped:
			out = append(out, Verdict{Code: JointsSwapped, Step: step, A: i, B: other, also: setOf(FirstJoint + Step(other))})
			handled[i], handled[other] = true, true
		default:
			out = append(out, Verdict{Code: JointOrder, Step: step, A: i, B: other, Value: f.Delta[other]})
		}
	}
	return out
}

// inRange takes back that a joint reads an angle outside its stops, where the verdicts from n on say that it is another joint, or
// reversed. These then say why it did so at rest.
func inRange(out []Verdict, n int) []Verdict {
	explained := func(joint int) (is bool) {
		for i := n; i < len(out); i++ {
			v, leg := &out[i], joint/go1.JointsInLeg
			switch v.Code {
			case JointReversed, JointsSwapped, JointOrder:
				if v.A != joint && v.B != joint {
					continue
				}
			case LegsSwapped:
				if v.A != leg && v.B != leg {
					continue
				}
			default:
				continue
			}
			v.also |= setOf(Rest)
			is = true
		}
		return is
	}
	kept := out[:0]
	for i := range out {
		if v := out[i]; v.Code != JointRange || !explained(v.A) {
			kept = append(kept, v)
		}
	}
	return kept
}

func (r *Record) feet(out []Verdict) []Verdict {
	var handled [go1.Legs]bool
	for i := range r.Feet {
		f := &r.Feet[i]
		step, other := FirstFoot+Step(i), f.Moved
		switch {
		case r.deadFoot(i):
			if !r.silentFeet() { // that has been said
				out = append(out, Verdict{Code: FootStuck, Step: step, A: i, B: -1})
			}
		case r.muteFoot(i):
			out = append(out, Verdict{Code: FootStuck, Step: step, A: i, B: -1, Value: f.Reach})
		case f.Blur && other < 0:
			out = append(out, Verdict{Code: FootOrder, Step: step, A: i, B: -1, Value: f.Delta[i]})
		case other < 0 || other == i && f.Delta[i] > 0 || handled[i]:
		case other != i && r.Feet[other].Moved == i:
			out = append(out, Verdict{Code: FeetSwapped, Step: step, A: i, B: other, also: setOf(FirstFoot + Step(other))})
			handled[i], handled[other] = true, true
		default:
			out = append(out, Verdict{Code: FootOrder, Step: step, A: i, B: other, Value: f.Delta[other]})
		}
	}
	return out
}

func (r *Record) remote(out []Verdict) []Verdict {
	tried := func(s Step) bool { return r.Results[s] == Failed || r.Results[s] == TimedOut }
	if !r.Rest.RemotePresent {
		if tried(RemoteStop) || tried(RemoteButtons) || tried(RemoteSticks) {
			out = append(out, Verdict{Code: RemoteAbsent, Step: RemoteStop, A: -1, B: -1, also: setOf(RemoteButtons) | setOf(RemoteSticks)})
		}
		return out
	}
	f := &r.Remote
	if r.Results[RemoteStop] == Failed {
		out = append(out, Verdict{Code: RemoteMapping, Step: RemoteStop, A: int(stopButtons), B: int(f.StopSeen)})
	}
	if tried(RemoteButtons) {
		for i, got := range f.Buttons {
			if got != 0 && got != asked[i] {
				out = append(out, Verdict{Code: RemoteMapping, Step: RemoteButtons, A: int(asked[i]), B: int(got)})
			}
		}
	}
	if tried(RemoteSticks) {
		for i := range sticks {
			if at := &f.Sticks[i]; *at != [4]float64{} && !stickRight(i, at) {
				out = append(out, Verdict{Code: RemoteStickSigns, Step: RemoteSticks, A: i, B: -1, Value: at[sticks[i].axis], Want: sticks[i].sign, part: i})
			}
		}
	}
	return out
}

var axisNames = [3]string{"x", "y", "z"}

// Text says what was measured, for people.
func (v *Verdict) Text() string {
	title := strings.TrimSuffix(Codes[v.Code].Title, ".")
	joint := func(i int) string { return go1.JointNames[i] }
	leg := func(i int) string { return go1.LegNames[i] }
	detail := ""
	switch v.Code {
	case MotorModeDropped:
		detail = fmt.Sprintf("%.0f of 12, among them %s", v.Value, joint(max(v.A, 0)))
	case StateNotFinite:
		detail = fmt.Sprintf("%.0f states", v.Value)
	case QuaternionBad:
		detail = fmt.Sprintf("length %.2f, want 1", v.Value)
	case IMUStuck:
		if detail = [...]string{"quaternion", "gyroscope", "accelerometer"}[max(v.A, 0)]; v.B >= 0 {
			detail += " about " + axisNames[v.B]
		}
	case IMUNoisy:
		detail = fmt.Sprintf("gyroscope %.3f rad/s", v.Value)
	case GyroBias:
		detail = fmt.Sprintf("%s %.3f rad/s", axisNames[v.A], v.Value)
	case AccNorm:
		detail = fmt.Sprintf("it reads %.2f", v.Value)
		if math.Abs(v.Value-1) < 0.2 {
			detail += ", so perhaps in g"
		}
	case Tilt, HangsAskew:
		detail = fmt.Sprintf("%.2f rad", v.Value)
	case GyroSign:
		detail = axisNames[v.A]
	case GyroUnits:
		detail = fmt.Sprintf("it says %.1f times what the orientation says", v.Value)
		if v.A >= 0 {
			detail = "about " + axisNames[v.A] + " " + detail
		}
		if v.Value > 45 && v.Value < 70 {
			detail += ", so degrees a second"
		}
	case GyroAxes:
		detail = fmt.Sprintf("at %s it says %s%s, the orientation %s%s", v.Step, sense(v.Value), axisNames[v.A], sense(v.Want), axisNames[v.B])
	case IMUAxes:
		if v.B == 2 {
			detail = fmt.Sprintf("pitch and roll are off by %+.0f degrees alike, as of an IMU that is turned so about its z axis, or of a robot whose head was taken to be elsewhere", v.Value*180/math.Pi)
			break
		}
		detail = fmt.Sprintf("asked for %s, the IMU says %s%s", v.Step, sense(v.Value), axisNames[max(v.A, 0)])
	case GravityMismatch:
		if detail = fmt.Sprintf("%.2f rad apart", v.Value); v.Step != Rest {
			detail += ", at " + v.Step.String()
		}
	case NeverStill:
		if detail = "the body swayed"; v.A >= 0 {
			detail = joint(v.A) + " crept"
		}
	case KneeFolded, JointRange:
		detail = fmt.Sprintf("%s %.2f rad", joint(v.A), v.Value)
	case JointNoisy:
		detail = fmt.Sprintf("%s, speed %.2f rad/s", joint(v.A), v.Value)
	case JointStuck:
		detail = joint(v.A)
	case JointReversed:
		detail = fmt.Sprintf("%s moved by %+.2f rad, want %+.2f", joint(v.A), v.Value, v.Want)
	case JointSpeed:
		detail = fmt.Sprintf("%s turned by %+.2f rad, and by its speed by %+.2f", joint(v.A), v.Want, v.Value)
		switch ratio := v.Value / v.Want; {
		case ratio < -0.5:
			detail += ": the wrong way"
		case math.Abs(ratio) < 0.1:
			detail += ": it stands still"
		case ratio > 45 && ratio < 70:
			detail += ": so degrees a second"
		}
	case JointsSwapped, JointOrder:
		detail = fmt.Sprintf("%s was moved, %s answers", joint(v.A), joint(v.B))
	case JointNotAlone:
		detail = fmt.Sprintf("when %s was asked for", joint(v.A))
	case LegsExchanged:
		detail = fmt.Sprintf("%s, in all %.0f joints that were moved", exchanges[v.A].text, v.Value)
	case LegsSwapped, FeetSwapped:
		detail = fmt.Sprintf("%s and %s", leg(v.A), leg(v.B))
	case FootStuck:
		detail = leg(v.A)
	case FootOrder:
		detail = fmt.Sprintf("%s was pressed", leg(v.A))
		if v.B >= 0 {
			detail += fmt.Sprintf(", %s answers with %+.0f counts", leg(v.B), v.Value)
		}
	case RemoteMapping:
		detail = fmt.Sprintf("%s was asked for, it says %s", buttonName(uint16(v.A)), buttonName(uint16(v.B)))
	case RemoteStickSigns:
		detail = fmt.Sprintf("%s: it reads %+.2f, want %+.0f", sticks[v.part].text, v.Value, v.Want)
	case MotorTempUnknown:
		detail = joint(v.A)
	case MotorHot:
		detail = fmt.Sprintf("%s %.0f C", joint(v.A), v.Value)
	case BatteryLow:
		detail = fmt.Sprintf("%.0f %%", v.Value)
	case CellsMissing:
		detail = fmt.Sprintf("%.0f, among them number %d", v.Value, v.A+1)
	case CellsUneven:
		detail = fmt.Sprintf("%.0f mV between the highest and the lowest", v.Value)
	case NothingSeen:
		detail = v.Step.String()
	case LossHold, LossDamp, LossLimp, LossUnclear:
		detail = fmt.Sprintf("in %.0f ms they came back %.0f %% of the way", v.Want, 100*max(v.Value, 0))
		if v.A > 0 {
			detail += fmt.Sprintf("; %d of the silences did not last %d to %d ms", v.A, LossShortestMs, LossLongestMs)
		}
	}
	if detail == "" {
		return title
	}
	return title + ": " + detail
}

func sense(v float64) string {
	if v < 0 {
		return "-"
	}
	return "+"
}
