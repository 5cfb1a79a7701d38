package main

import (
	"bufio"
	"fmt"
	"math"
	"os"

	"github.com/go-json-experiment/json"

	"github.com/openclaw-rl/openclaw/sim/virtual"
)

// What the demo asks for.
const (
	demoAccelerate = 2.0     // s at the start of walking that the mean leaves out, at most half of all
	demoVxError    = 0.15    // m/s
	demoVyError    = 0.15    // m/s
	demoWzError    = 0.3     // rad/s
	demoLost       = 1e-3    // of the frames
	demoStallMs    = 15      // of the robot's own thread: above it the machine was not there
	demoLying      = 0.12    // m, the robot's log's limit of lying
	demoStillFor   = 0.5     // s of standing before the log says stood
	demoMaxRecord  = 1 << 20 // bytes of one record
)

// robotLog is what the demo reads of the virtual robot's log, see package virtual.
type robotLog struct {
	states  []robotState
	first   map[string]float64 // s, of the first record of each event
	torque  float64            // s, when the first frame with torque came; NaN: none
	fall    string             // cause of the first
	summary *virtual.Summary
}

// robotState is one of 50 records a second, from physics.
type robotState struct {
	t, height, vx, vy, wz float64 // s, m, m/s along and across the heading, rad/s
}

// robotRecord is a line of the log.
type robotRecord struct {
	T       float64          `json:"t"`
	Event   string           `json:"event"`
	Class   string           `json:"class"`
	Cause   string           `json:"cause"`
	Height  float64          `json:"height"`
	Heading [2]float64       `json:"heading"`
	Vel     [3]float64       `json:"vel"`
	Summary *virtual.Summary `json:"summary"`
}

func readRobotLog(name string) (*robotLog, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	l := &robotLog{first: map[string]float64{}, torque: math.NaN()}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, demoMaxRecord)
	n := 0
	for lines.Scan() {
		n++
		var r robotRecord
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		l.add(&r)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if l.summary == nil {
		return nil, fmt.Errorf("%s: no summary in its last line: the robot did not end in order", name)
	}
	return l, nil
}

func (l *robotLog) add(r *robotRecord) {
	if _, seen := l.first[r.Event]; !seen {
		l.first[r.Event] = r.T
		if r.Event == "fall" {
			l.fall = r.Cause
		}
	}
	switch {
	case r.Event == "state":
		l.states = append(l.states, robotState{r.T, r.Height, r.Heading[0], r.Heading[1], r.Vel[2]})
	case r.Event == "command" && r.Class == string(virtual.ClassTorque) && math.IsNaN(l.torque):
		l.torque = r.T
	case r.Event == "summary":
		l.summary = r.Summary
	}
}

// at is when an event was first; NaN: never.
func (l *robotLog) at(event string) float64 {
	if t, ok := l.first[event]; ok {
		return t
	}
	return math.NaN()
}

// mean and standard deviation of a quantity in after < t <= to; NaN where there is no record.
func (l *robotLog) mean(after, to float64, of func(*robotState) float64) (mean, std float64) {
	var n, sum, squares float64
	for i := range l.states {
		if s := &l.states[i]; s.t > after && s.t <= to {
			x := of(s)
			n, sum, squares = n+1, sum+x, squares+x*x
		}
	}
	mean = sum / n
	return rounded(mean), rounded(math.Sqrt(max(squares/n-mean*mean, 0)))
}

// rounded leaves four digits behind the point: 0.1 mm, 0.1 ms.
func rounded(x float64) float64 { return math.Round(x*1e4) / 1e4 }

func (s *robotState) heightM() float64 { return s.height }

// agentSummary is what the demo reads of clawagent's last line.
type agentSummary struct {
	Frames      uint64  `json:"frames"`
	Missed      uint64  `json:"missed"`
	Trips       uint64  `json:"guard_trips"`
	Rejected    uint64  `json:"rejected"`
	Steps       uint64  `json:"policy_steps"`
	LoopP50Us   float64 `json:"loop_p50_us"`
	LoopP99Us   float64 `json:"loop_p99_us"`
	LoopP999Us  float64 `json:"loop_p999_us"`
	RxToTxP50Us float64 `json:"rx_to_tx_p50_us"`
	RxToTxP99Us float64 `json:"rx_to_tx_p99_us"`
	Fault       string  `json:"fault"`
	Guard       struct {
		Frames uint64 `json:"frames"` // that it sent in the loop's place, from the agent's address
	} `json:"guard"`
}

// demoResult is what demo prints; its JSON is the program's interface for scripts. What did not come about is null.
type demoResult struct {
	OK       bool     `json:"ok"`
	Failures []string `json:"failures"`
	Attempts int      `json:"attempts"`         // more than 1: the machine's timing ended those before
	Earlier  []string `json:"earlier_attempts"` // how each of them failed
	Ahead    bool     `json:"real_time"`        // robot and agent ran ahead of ordinary programs
	Timing   bool     `json:"timing"`           // it failed by the machine's timing, see byTiming
	LateMs   float64  `json:"loop_late_ms"`     // the agent's safety.loop_late_ms, where the demo set it; 0: it did not
	Policy   string   `json:"policy"`           // file; empty: none
	Name     string   `json:"policy_name"`

	// From the robot's log: physics and receive times.
	DurationS    float64 `json:"duration_s"` // of walking, without a policy of standing; robot's time
	VxCmd        float64 `json:"vx_cmd"`     // m/s
	VxMean       float64 `json:"vx_mean"`    // along the heading, without the first 2 s (half, if that is less)
	VxStd        float64 `json:"vx_std"`     // of 50 samples a second, the steps' sway included
	VyCmd        float64 `json:"vy_cmd"`
	VyMean       float64 `json:"vy_mean"`
	WzCmd        float64 `json:"wz_cmd"` // rad/s
	WzMean       float64 `json:"wz_mean"`
	Falls        int     `json:"falls"`
	LyingM       float64 `json:"height_lying_m"`
	StandingM    float64 `json:"height_standing_m"`
	WalkingM     float64 `json:"height_walking_m"`
	LyingAgainM  float64 `json:"height_lying_again_m"`
	StandSeconds float64 `json:"stand_seconds"` // from the first torque until it stood still
	TiltMax      float64 `json:"tilt_max_rad"`
	PowerW       float64 `json:"power_w"`
	Frames       uint64  `json:"frames"` // taken by the robot
	Missed       uint64  `json:"missed"` // periods of 2 ms in which none came, from the first to the last
	RxMaxUs      float64 `json:"rx_max_us"`
	Stalls       int     `json:"stalls"` // of the robot's own thread
	StallMaxMs   float64 `json:"stall_max_ms"`

	// From the agent.
	AgentFrames uint64  `json:"agent_frames"` // sent, by its guard too
	AgentMissed uint64  `json:"agent_missed"` // ticks of its loop
	GuardTrips  uint64  `json:"guard_trips"`
	Fault       string  `json:"fault"` // that its judge latched
	PolicySteps uint64  `json:"policy_steps"`
	LoopP50Us   float64 `json:"loop_p50_us"`
	LoopP99Us   float64 `json:"loop_p99_us"`
	LoopP999Us  float64 `json:"loop_p999_us"`
	RxToTxP50Us float64 `json:"rx_to_tx_p50_us"`
	RxToTxP99Us float64 `json:"rx_to_tx_p99_us"`
}

// judge makes the result of a robot's log and an agent's summary. The robot was to walk, or to stand, from one robot time to the
// other.
func judge(cfg *demoConfig, l *robotLog, agent *agentSummary, from, to float64) *demoResult {
	s := l.summary
	r := &demoResult{
		Policy: cfg.policy, Name: cfg.name, DurationS: rounded(to - from),
		Falls: s.Falls, TiltMax: rounded(s.Tilt), PowerW: rounded(s.Power), Frames: s.Frames, Missed: s.Missed, RxMaxUs: rounded(s.RxMaxUs), Stalls: s.Stalls, StallMaxMs: rounded(s.StallMax),
		AgentFrames: agent.Frames + agent.Guard.Frames, AgentMissed: agent.Missed, GuardTrips: agent.Trips, PolicySteps: agent.Steps,
		LoopP50Us: agent.LoopP50Us, LoopP99Us: agent.LoopP99Us, LoopP999Us: agent.LoopP999Us,
		RxToTxP50Us: agent.RxToTxP50Us, RxToTxP99Us: agent.RxToTxP99Us,
	}
	stood := l.at("stood")
	r.StandSeconds = rounded(stood - l.torque)
	first := l.torque
	if math.IsNaN(first) {
		first = math.Inf(1)
	}
	r.LyingM, _ = l.mean(math.Inf(-1), first, (*robotState).heightM)
	r.StandingM, _ = l.mean(stood-demoStillFor, stood, (*robotState).heightM)
	r.LyingAgainM, _ = l.mean(s.Seconds-demoStillFor, s.Seconds, (*robotState).heightM)
	r.VxMean, r.VxStd, r.VyMean, r.WzMean, r.WalkingM = math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()
	if cfg.policy != "" {
		r.VxCmd, r.VyCmd, r.WzCmd = cfg.command[0], cfg.command[1], cfg.command[2]
		after := from + min(demoAccelerate, (to-from)/2)
		r.VxMean, r.VxStd = l.mean(after, to, func(s *robotState) float64 { return s.vx })
		r.VyMean, _ = l.mean(after, to, func(s *robotState) float64 { return s.vy })
		r.WzMean, _ = l.mean(after, to, func(s *robotState) float64 { return s.wz })
		r.WalkingM, _ = l.mean(after, to, (*robotState).heightM)
	}
	r.Failures = r.failures(cfg, l)
	return r
}

// failures says what is not as it should be.
func (r *demoResult) failures(cfg *demoConfig, l *robotLog) []string {
	failures := []string{}
	fail := func(format string, args ...any) { failures = append(failures, fmt.Sprintf(format, args...)) }
	if r.Falls > 0 {
		fail("it fell %d times, first at %.2f s (%s)", r.Falls, l.at("fall"), l.fall)
	}
	if !(r.LyingM < demoLying) {
		fail("it did not lie at the start: %.2f m", r.LyingM)
	}
	last, missing := l.torque, false
	story := []string{"stood", "walking", "lying"}
	if cfg.policy == "" {
		story = []string{"stood", "lying"}
	}
	for _, event := range story {
		if t := l.at(event); !missing && !(t > last) {
			fail("the robot's log lacks %q in lying, standing, walking, lying", event)
			missing = true
		} else {
			last = t
		}
	}
	if l.summary.Posture != "lying" {
		fail("it is %s at the end, not lying", l.summary.Posture)
	}
	switch {
	case cfg.policy == "":
	case math.IsNaN(r.VxMean):
		fail("it did not come to walking")
	default:
		for i, v := range []struct {
			name, unit string
			mean, most float64
		}{{"vx", "m/s", r.VxMean, demoVxError}, {"vy", "m/s", r.VyMean, demoVyError}, {"wz", "rad/s", r.WzMean, demoWzError}} {
			if !(math.Abs(v.mean-cfg.command[i]) <= v.most) {
				fail("its mean %s is %.3f %s, want %v within %v", v.name, v.mean, v.unit, cfg.command[i], v.most)
			}
		}
	}
	more, less := max(r.Frames, r.AgentFrames), min(r.Frames, r.AgentFrames)
	if more == 0 || float64(more-less) > demoLost*float64(more) {
		fail("the agent sent %d frames and the robot took %d, want at most 0.1 %% apart", r.AgentFrames, r.Frames)
	}
	if n := l.summary.Physics; n > 0 {
		fail("physics failed on %d steps", n)
	}
	if n := l.summary.LogLost; n > 0 {
		fail("the robot's log lacks %d records", n)
	}
	return failures
}

// demoTiming are the agent's faults that a machine which stands still brings about.
var demoTiming = map[string]bool{
	"state_stale": true, "tick_stuck": true, "policy_stale": true, "end_to_end_age": true, "loop_late": true,
	"guard_tripped": true, "guard_lost": true,
}

// byTiming says that the attempt failed by the machine's timing: the agent's judge acted on it or, without real-time rights, the robot's
// thread was held up and something came too late for an operator's program, with no other fault and no fall.
func (r *demoResult) byTiming() bool {
	return len(r.Failures) > 0 && (demoTiming[r.Fault] || !r.Ahead && r.stalled() && r.Fault == "" && r.Falls == 0)
}

// again says that there may be another attempt. With real-time rights the robot must have been held up as well as the agent, which is to
// say the whole machine; without them the agent alone is held up too, by any program.
func (r *demoResult) again() bool {
	return r.Timing && r.Attempts < r.most() && (!r.Ahead || r.stalled())
}

// most is how many attempts there may be.
func (r *demoResult) most() int {
	if r.Ahead {
		return demoAttempts
	}
	return demoAttemptsLow
}

// stalled says that the robot's own thread was held up.
func (r *demoResult) stalled() bool { return r.StallMaxMs > demoStallMs }

// timing tells how the machine's timing ended the attempt.
func (r *demoResult) timing() string {
	switch {
	case r.Fault == "":
		return fmt.Sprintf("the machine itself stood still for %.0f ms (the robot's record): %s", r.StallMaxMs, r.Failures[0])
	case r.stalled():
		return fmt.Sprintf("the machine itself stood still for %.0f ms (the robot's record), and the agent's judge did what it must: %s", r.StallMaxMs, r.Fault)
	}
	return fmt.Sprintf("other programs came in between, without real-time rights, and the agent's judge did what it must: %s", r.Fault)
}
