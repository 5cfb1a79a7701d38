package firstcontact

import (
	"fmt"
	"strings"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// Step is one thing that is asked of the robot, or of the person beside it.
type Step uint8

// Steps, in the order in which they are gone through. FirstJoint+i is SDK joint i, FirstFoot+i leg i.
const (
	Frame         Step = iota // do the motors take our frames
	Rest                      // what all sensors say while it hangs still
	NoseDown                  // turn about +y
	RollLeft                  // turn about -x
	YawLeft                   // turn about +z
	FirstJoint                // twelve, moved by hand
	FirstFoot     = FirstJoint + go1.Joints
	RemoteStop    = FirstFoot + go1.Legs // L2+B
	RemoteButtons = RemoteStop + 1
	RemoteSticks  = RemoteStop + 2
	StepCount     = int(RemoteStop) + 3
)

// motions is how many steps turn the body.
const motions = 3

// motion of step NoseDown + i: the axis and sense in the body's frame (x forward, y left, z up).
var motion = [motions]struct {
	axis int
	sign float64
}{{1, 1}, {0, -1}, {2, 1}}

// handSign is the sense in which a joint is moved by hand: the foot away from the body, the leg backwards, and the knee bent, since a
// hanging knee is straight already. Front and hind knees bend alike: the foot goes forward and up.
func handSign(joint int) float64 {
	leg := joint / go1.JointsInLeg
	switch {
	case joint%go1.JointsInLeg == go1.Thigh:
		return 1
	case joint%go1.JointsInLeg == go1.Hip && (leg == go1.FL || leg == go1.RL):
		return 1
	}
	return -1
}

// Group is a kind of step.
type Group uint8

// Groups of steps.
const (
	Automatic Group = iota // nobody has to do anything
	Motions
	Joints
	Feet
	Remote
)

var groupNames = [...]string{"automatic", "motions", "joints", "feet", "remote"}

func (g Group) String() string { return groupNames[g] }

// Group is what kind of step it is.
func (s Step) Group() Group {
	switch {
	case s <= Rest:
		return Automatic
	case s < FirstJoint:
		return Motions
	case s < FirstFoot:
		return Joints
	case s < RemoteStop:
		return Feet
	}
	return Remote
}

// index is the step's place in its group.
func (s Step) index() int {
	switch s.Group() {
	case Motions:
		return int(s - NoseDown)
	case Joints:
		return int(s - FirstJoint)
	case Feet:
		return int(s - FirstFoot)
	case Remote:
		return int(s - RemoteStop)
	}
	return int(s)
}

func (s Step) String() string {
	switch s.Group() {
	case Automatic:
		return [...]string{"frame", "rest"}[s]
	case Motions:
		return [...]string{"nose_down", "roll_left", "yaw_left"}[s.index()]
	case Joints:
		return go1.JointNames[s.index()]
	case Feet:
		return go1.LegNames[s.index()] + "_foot"
	}
	if int(s) >= StepCount {
		return fmt.Sprintf("step_%d", uint8(s))
	}
	return [...]string{"remote_stop", "remote_buttons", "remote_sticks"}[s.index()]
}

// ParseSteps reads the name of a step, or of a group of those that ask for a person.
func ParseSteps(name string) ([]Step, error) {
	var of []Step
	for s := range Step(StepCount) {
		if s.String() == name || s.Group() != Automatic && s.Group().String() == name {
			of = append(of, s)
		}
	}
	if of == nil {
		var names []string
		for s := range Step(StepCount) {
			names = append(names, s.String())
		}
		return nil, fmt.Errorf("firstcontact: no step %q, want %s, or one of %s", name, strings.Join(names, ", "), strings.Join(groupNames[Motions:], ", "))
	}
	return of, nil
}

// Stand is where a person stands for whom left and right are the robot's.
const Stand = "stand behind the robot and look the way it looks, so that its left is yours; its head, the front end, is the one with the face: cameras and lamps"

// legText names legs for a person who stands there.
var legText = [go1.Legs]string{"front right", "front left", "rear right", "rear left"}

// Ask is what the person is asked for; part counts within a step that asks for several things (buttons, sticks).
func (s Step) Ask(part int) string {
	switch s.Group() {
	case Automatic:
		return [...]string{
			"nothing to do: do the motors take our frames",
			"let it hang still, all legs and the remote's sticks untouched",
		}[s]
	case Motions:
		return [...]string{
			"tip the nose down by 20 degrees or more, without a jerk, hold it there for a second, then back to level",
			"roll the body to its left (left side down) by 20 degrees or more, without a jerk, hold it there for a second, then back to level",
			"turn the nose to the robot's left by 20 degrees or more, within a second or so, hold it there for a second, then back",
		}[s.index()]
	case Joints:
		leg := legText[s.index()/go1.JointsInLeg]
		return [...]string{
			"swing the whole " + leg + " leg outwards, away from the belly, by hand, and let it go",
			"swing the whole " + leg + " leg backwards, by hand, and let it go",
			"bend the " + leg + " knee, foot forward and up, by hand, and let it go",
		}[s.index()%go1.JointsInLeg]
	case Feet:
		return "press the " + legText[s.index()] + " foot between both hands, one below and one above, and let it go"
	}
	switch s {
	case RemoteStop:
		return "on the hand remote press L2 and B together"
	case RemoteButtons:
		return "on the hand remote press " + buttonName(asked[min(part, len(asked)-1)]) + " alone, and let it go"
	}
	return "on the hand remote push the " + sticks[min(part, len(sticks)-1)].text + " as far as it goes, and let it go"
}
