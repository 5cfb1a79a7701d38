package control

import (
	"errors"
	"fmt"
)

// Mode is what the loop is doing; the design's table of modes says how each is
// entered and left.
type Mode uint8

// Modes.
const (
	Idle   Mode = iota // sends nothing
	Listen             // damping frames, so that states come
	Damp               // damping frames
	Stand              // standing up, standing, or holding after the policy let go
	Policy             // the policy walks
	Sit                // on the way to lying
	EStop              // stopped by a person
)

var modeNames = [...]string{"idle", "listen", "damp", "stand", "policy", "sit", "estop"}

func (m Mode) String() string { return modeNames[m] }

// torque says whether the mode's frames may carry torque.
func (m Mode) torque() bool { return m == Stand || m == Policy || m == Sit }

// Phase is a part of a mode.
type Phase uint8

// Phases.
const (
	PhaseNone     Phase = iota
	PhaseFold           // stand: from where it lies to the folded pose
	PhaseRise           // stand: folded pose to home
	PhaseReady          // stand: at home
	PhaseHold           // stand: the policy let go, the legs are brought home at once
	PhaseBlend          // policy: gains and targets move from the stand's to the policy's
	PhaseWalk           // policy
	PhaseStopping       // sit: the policy still walks, commanded to stand still
	PhaseHome           // sit: from the last target to home
	PhaseLower          // sit: home to folded
)

var phaseNames = [...]string{"", "fold", "rise", "ready", "hold", "blend", "walk", "stopping", "home", "lower"}

func (p Phase) String() string { return phaseNames[p] }

// ErrSportOn is what Parts.SportOff wraps when sport mode is on.
var ErrSportOn = errors.New("sport mode is on")

// ErrNoFirstContact is what Parts.MayStand wraps when nobody has shown that this
// robot's sensors and joints are those of the documents.
var ErrNoFirstContact = errors.New("the robot has not passed its first contact")

// Refusal says why a request changed nothing.
type Refusal struct {
	Reason Reason
	Joint  int     // SDK index where the reason is about one; else -1
	Value  float64 // the measured value, in the reason's unit
}

// Reason of a Refusal.
type Reason uint8

// Reasons.
const (
	Accepted Reason = iota
	NotNamed        // no such transition
	NotArmed
	AlreadyArmed
	Latched
	FewStates
	NotUpright
	Turning
	JointNotAlive
	NotFolded
	NoRemote
	BatteryTooLow
	NotReady
	NoPolicy
	NotWalking
	VelocityUnsure
	PolicyAbsent
	StoppedMeanwhile
	LinkFails
	NoGuard
	TrippedMeanwhile // Value: the guard's trips; and for the loop's own lateness
	Stopping
)

var reasonTexts = [...]string{
	Accepted:         "accepted",
	NotNamed:         "no such transition from this mode",
	NotArmed:         "not armed: nothing is sent to the robot until a person arms it",
	AlreadyArmed:     "already armed",
	Latched:          "a fault is latched: look at the robot, then ask for damp, then for stand",
	FewStates:        "too few states from the robot yet: %.0f, want 10 fresh ones",
	NotUpright:       "the body tilts %.2f rad, want less than 0.3",
	Turning:          "the body turns at %.2f rad/s, want less than 0.3",
	JointNotAlive:    "joint is not alive (motor mode %.0f, or an impossible angle)",
	NotFolded:        "joint is %.2f rad away from both the folded and the home pose, want 0.3 (a folded hip 0.5)",
	NoRemote:         "the hand remote is absent, so its stop would not work",
	BatteryTooLow:    "the battery is at %.0f %%",
	NotReady:         "not standing yet",
	NoPolicy:         "no policy is loaded",
	NotWalking:       "velocity commands are taken only in mode policy",
	VelocityUnsure:   "the policy needs the body's velocity, and its estimate is not sound yet",
	PolicyAbsent:     "the policy is not waiting for the robot: it has failed or is still busy",
	StoppedMeanwhile: "somebody stopped it meanwhile",
	LinkFails:        "frames cannot be sent to the robot",
	NoGuard:          "there is no guard: nothing would damp the robot if this program died",
	TrippedMeanwhile: "the robot was damped meanwhile, by the guard, %.0f times by now, or for the loop's own lateness, and stays so. Look at it, then ask for damp again",
	Stopping:         "the program is stopping",
}

// Error makes a Refusal an error.
func (r *Refusal) Error() string {
	text := reasonTexts[r.Reason]
	if r.Reason == FewStates || r.Reason == NotUpright || r.Reason == Turning ||
		r.Reason == JointNotAlive || r.Reason == NotFolded || r.Reason == BatteryTooLow || r.Reason == TrippedMeanwhile {
		text = fmt.Sprintf(text, r.Value)
	}
	if r.Joint >= 0 {
		text = jointName(r.Joint) + ": " + text
	}
	return "control: " + text
}
