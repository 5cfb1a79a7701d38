package firstcontact

import "github.com/openclaw-rl/openclaw/agent/go1"

// exchanges are the ways in which all legs may answer for others at once: by the robot, or by a person who looks at it from elsewhere.
var exchanges = [...]struct {
	text string
	legs [go1.Legs]int // that answers for each
}{
	{"left and right", [go1.Legs]int{go1.FL, go1.FR, go1.RL, go1.RR}},
	{"front and rear", [go1.Legs]int{go1.RR, go1.RL, go1.FR, go1.FL}},
	{"front and rear, and with them left and right, as of a head that is taken for the tail", [go1.Legs]int{go1.RL, go1.RR, go1.FL, go1.FR}},
}

// exchanged appends that all that was moved is of the leg opposite, if it is: of more than two legs, and no foot that says otherwise.
func (r *Record) exchanged(out []Verdict) []Verdict {
	const few = 2 * go1.JointsInLeg // which two that are swapped would explain
	for k := range exchanges {
		v, n, all := Verdict{Code: LegsExchanged, Step: FirstJoint, A: k, B: -1}, 0, true
		for i := range r.Joints {
			if m := r.Joints[i].Moved; m >= 0 {
				n, all = n+1, all && m/go1.JointsInLeg == exchanges[k].legs[i/go1.JointsInLeg] && m%go1.JointsInLeg == i%go1.JointsInLeg
				v.also |= setOf(FirstJoint + Step(i))
			}
		}
		for i := range r.Feet {
			if m := r.Feet[i].Moved; m >= 0 {
				all = all && m == exchanges[k].legs[i]
				v.also |= setOf(FirstFoot + Step(i))
			}
		}
		if all && n > few {
			v.Value = float64(n)
			return append(out, v)
		}
	}
	return out
}

// otherSide says that two legs are on different sides.
func otherSide(a, b int) bool { return a%2 != b%2 }
