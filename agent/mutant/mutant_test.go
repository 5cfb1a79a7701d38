package mutant

import "testing"

func TestHalf(t *testing.T) {
	if half(10) != 5 || half(-1) != 0 {
		t.Fatal("not half")
	}
}

// TestRun: a mutant that a test notices is killed, one that none notices survives, and what does not compile is no program.
func TestRun(t *testing.T) {
	if Running() {
		t.Skip("this is a mutant")
	}
	for _, c := range []struct {
		name             string
		pairs            []string
		compiled, killed bool
	}{
		{"it doubles", []string{"return n / 2", "return n * 2"}, true, true},
		{"two changes", []string{"n < 0", "n < 1", "return 0", "return 1"}, true, true},
		{"0 is below 1", []string{"n < 0", "n < 1"}, true, false},
		{"no Go", []string{"return n / 2", "return half"}, false, true},
	} {
		m := Edit(t, c.name, "toy_test.go", c.pairs...)
		out, compiled, killed := m.Run(t)
		if compiled != c.compiled || killed != c.killed {
			t.Errorf("%s: compiled %v, killed %v, want %v and %v\n%s", c.name, compiled, killed, c.compiled, c.killed, out)
		}
	}
}
