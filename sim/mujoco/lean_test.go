package mujoco

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// wholeLean is what Lean derives, as a file of its own, which mj_step steps whole.
func wholeLean(t testing.TB) *Model {
	t.Helper()
	full, err := assets.ReadFile("assets/" + Full)
	must(t, err)
	xml := regexp.MustCompile(`(?m)^\s*(<geom name="[A-Za-z_]*".*|<light .*)$`).ReplaceAllStringFunc(string(full), func(line string) string {
		if strings.Contains(line, `_foot"`) {
			return line
		}
		if strings.Contains(line, `"floor"`) {
			return strings.Replace(line, `contype="1"`, `contype="0"`, 1)
		}
		return ""
	})
	xml = strings.Replace(xml, `<geom type="sphere" size="0.023"`, `<geom contype="0" conaffinity="0" type="sphere" size="0.023"`, 1)
	var pairs strings.Builder
	for _, leg := range []string{"FR", "FL", "RR", "RL"} {
		fmt.Fprintf(&pairs, `<pair geom1="floor" geom2="%s_foot" condim="3" friction="0.8 0.8 0.005 0.0001 0.0001" solimp="0.9 0.95 0.023 0.5 2"/>`, leg)
	}
	xml = strings.Replace(xml, "</mujoco>", `<contact>`+pairs.String()+`</contact>
<option timestep="0.005" iterations="1" ls_iterations="5" cone="pyramidal" impratio="1" jacobian="dense"><flag eulerdamp="disable"/></option></mujoco>`, 1)
	m, err := LoadXML("whole.xml", []byte(xml))
	must(t, err)
	t.Cleanup(m.Close)
	return m
}

// Stepping stage by stage gives the bits of mj_step, from the first step to the last of a walk-like
// movement with falls and with every parameter changed.
func TestLeanStepsLikeMuJoCo(t *testing.T) {
	lean, err := Load(Lean)
	must(t, err)
	defer lean.Close()
	var sims [2]*Sim
	for i, m := range []*Model{lean, wholeLean(t)} {
		sims[i], err = m.NewSim()
		must(t, err)
		defer sims[i].Close()
		p := DefaultParams()
		p.Friction, p.TrunkMass, p.TrunkCoM, p.Armature[4] = 0.5, 0.7, [3]float64{0.02, -0.01, 0.03}, 0.007
		must(t, sims[i].SetParams(p))
	}
	random := rand.New(rand.NewPCG(1, 2))
	contacts := 0
	for episode := range 20 {
		for _, s := range sims {
			must(t, s.Reset(HomePose()))
		}
		for step := range 100 {
			q := HomePose().Q
			for i := range q {
				q[i] += 0.6*random.Float64() - 0.3
			}
			c := Servo(q, 35, 0.5)
			c.QBefore, c.Late = HomePose().Q, int32(step%3)
			for _, s := range sims {
				must(t, s.Advance(&c, 4))
			}
			a, b := read(sims[0]), read(sims[1])
			if a != b {
				t.Fatalf("episode %d, step %d: stage by stage\n%+v, whole\n%+v", episode, step, a, b)
			}
			for _, on := range a.Contacts {
				if on {
					contacts++
				}
			}
		}
	}
	if contacts < 1000 {
		t.Errorf("%d contacts seen in 8000 chances: nothing was compared", contacts)
	}
}

// A command that comes late acts late: Late steps under QBefore and the rest under Q are the same as
// two Advances.
func TestLateCommand(t *testing.T) {
	for _, late := range []int{0, 1, 3, 4} {
		one, two := newSim(t), newSim(t)
		before, after := HomePose().Q, HomePose().Q
		after[1] += 0.3
		c := Servo(after, 35, 0.5)
		c.QBefore, c.Late = before, int32(late)
		must(t, one.Advance(&c, 4))
		if c := Servo(before, 35, 0.5); late > 0 {
			must(t, two.Advance(&c, late))
		}
		if c := Servo(after, 35, 0.5); late < 4 {
			must(t, two.Advance(&c, 4-late))
		}
		a, b := read(one), read(two)
		if a.Q != b.Q || a.Dq != b.Dq || a.Pos != b.Pos {
			t.Errorf("%d steps late: %v, in two calls %v", late, a.Q, b.Q)
		}
	}
	c := Servo(HomePose().Q, 35, 0.5)
	c.QBefore[3] = math.NaN()
	if err := newSim(t).Advance(&c, 1); err == nil || !strings.Contains(err.Error(), "QBefore of FL_hip is NaN") {
		t.Errorf("NaN in QBefore: %v", err)
	}
}
