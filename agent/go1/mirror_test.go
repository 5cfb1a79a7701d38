package go1

import (
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// reflected is a reading of the same robot seen in a mirror: legs change sides, hips, y and turns
// about x and z change sign, the gait clock is half a cycle off.
func reflected(r *Reading) *Reading {
	m := *r
	m.Gyro = [3]float32{-r.Gyro[0], r.Gyro[1], -r.Gyro[2]}
	m.Gravity = [3]float32{r.Gravity[0], -r.Gravity[1], r.Gravity[2]}
	m.LinVel = [3]float32{r.LinVel[0], -r.LinVel[1], r.LinVel[2]}
	m.Command = [3]float32{r.Command[0], -r.Command[1], -r.Command[2]}
	m.Phase = r.Phase + 0.5
	for leg := range Legs {
		for k, sign := range [3]float32{-1, 1, 1} {
			to, from := 3*leg+k, 3*(leg^1)+k
			m.Q[to], m.Dq[to] = sign*r.Q[from], sign*r.Dq[from]
		}
	}
	return &m
}

// The mirrored observation is that of the mirrored robot, for each joint order and layout, and
// mirroring twice changes nothing.
func TestMirrorGroup(t *testing.T) {
	for _, joints := range [][]string{JointNames[:], isaac()} {
		for _, layout := range []rollout.Layout{rollout.ByTerm, rollout.ByFrame} {
			s := spec(joints, layout, term("base_lin_vel", 2, 2), term("base_ang_vel", 0.25, 2), term("projected_gravity", 1, 2),
				term("joint_pos", 1, 2), term("joint_vel", 0.05, 2), term("actions", 1, 2), term("command", 1, 2), term("clock", 1, 2))
			for i, n := range joints { // a home that is the same on both sides
				s.Home[i] = Home[JointIndex(n)]
			}
			index, sign, err := MirrorGroup(s, "policy", nil)
			if err != nil {
				t.Fatal(err)
			}
			action, actionSign, err := MirrorAction(joints)
			if err != nil {
				t.Fatal(err)
			}
			o, err := NewObserver(s, "policy", 2, nil)
			if err != nil {
				t.Fatal(err)
			}
			seen, mirrored := make([]float32, o.Dim()), make([]float32, o.Dim())
			for step := range 2 {
				r := numbered()
				r.Phase, r.ClockOn = 0.1+0.2*float32(step), true
				for i := range r.LastAction {
					r.LastAction[i] = float32(100*step + i)
				}
				m := reflected(r)
				for i := range m.LastAction {
					m.LastAction[i] = actionSign[i] * r.LastAction[action[i]]
				}
				o.Observe(0, r, seen)
				o.Observe(1, m, mirrored)
			}
			for i := range seen {
				if got := sign[i] * seen[index[i]]; max(got-mirrored[i], mirrored[i]-got) > 1e-4 {
					t.Errorf("%s: number %d mirrored is %v, of the mirrored robot %v", layout, i, got, mirrored[i])
				}
				if index[index[i]] != int32(i) || sign[i]*sign[index[i]] != 1 {
					t.Errorf("%s: number %d mirrored twice is another", layout, i)
				}
			}
		}
	}
}

func TestMirrorRefuses(t *testing.T) {
	s := spec(JointNames[:], rollout.ByTerm, term("command", 1, 1))
	s.Groups = append(s.Groups, rollout.Group{Name: "critic", Layout: rollout.ByTerm, Terms: []rollout.Term{{Name: "wind", Size: 3, Scale: 1, History: 1}}})
	legs := func(string) *Mirror { return &Mirror{Sign: []float32{1}, Legs: true} }
	for _, c := range []struct {
		group, says string
		extra       func(string) *Mirror
	}{
		{"actor", "group actor: not in the spec", nil},
		{"critic", "term wind: no mirror is known", nil},
		{"critic", "term wind: no mirror is known", func(string) *Mirror { return nil }},
		{"critic", "term wind: its mirror does not suit 3 numbers", legs},
	} {
		if _, _, err := MirrorGroup(s, c.group, c.extra); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error %v, want %q", err, c.says)
		}
	}
	s.Groups[1].Terms[0].Size = Legs
	index, sign, err := MirrorGroup(s, "critic", legs)
	if err != nil || !slices.Equal(index, []int32{1, 0, 3, 2}) || !slices.Equal(sign, []float32{1, 1, 1, 1}) {
		t.Errorf("a term by leg: %v %v %v", index, sign, err)
	}
	if _, _, err := MirrorAction(JointNames[:11]); err == nil {
		t.Error("eleven joints are mirrored")
	}
}
