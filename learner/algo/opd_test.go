package algo

import (
	"math"
	"strings"
	"testing"
)

func TestSchedule(t *testing.T) {
	for _, test := range []struct {
		s    Schedule
		i    int64
		want float64
	}{
		{Schedule{0.4, 0, 60}, 0, 0.4},
		{Schedule{0.4, 0, 60}, 15, 0.3},
		{Schedule{0.4, 0, 60}, 60, 0},
		{Schedule{0.4, 0, 60}, 1 << 40, 0},
		{Schedule{0.4, 0, 60}, -3, 0.4},
		{Schedule{0, 1, 4}, 3, 0.75},
		{Schedule{0.4, 0.1, 0}, 0, 0.1},
		{Schedule{0.3, 0.3, 7}, 5, 0.3},
	} {
		if got := test.s.at(test.i); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("%+v in iteration %d: %v, want %v", test.s, test.i, got, test.want)
		}
	}
}

// What cannot be is refused by its key.
func TestValidateNamesTheKey(t *testing.T) {
	c := Default()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for says, spoil := range map[string]func(*Config){
		`opd.teacher is "parrot", want one of none, gait,`: func(c *Config) { c.OPD.Teacher = "parrot" },
		`opd.loss is "", want one of nll, mse, kl`:         func(c *Config) { c.OPD.Loss = "" },
		"opd.file is empty, but opd.teacher is file":       func(c *Config) { c.OPD.Teacher = "file" },
		"opd.file is empty, but opd.teacher is privileged": func(c *Config) { c.OPD.Teacher = "privileged" },
		`opd.file is "x", but opd.teacher gait reads none`: func(c *Config) { c.OPD.Teacher, c.OPD.File = "gait", "x" },
		`opd.group is "critic", but opd.teacher ema`:       func(c *Config) { c.OPD.Teacher, c.OPD.Group = "ema", "critic" },
		"opd.mix.start is 1.5, want 0..1":                  func(c *Config) { c.OPD.Mix.Start = 1.5 },
		"opd.mix.end is -0.1":                              func(c *Config) { c.OPD.Mix.End = -0.1 },
		"opd.mix.iterations is -1":                         func(c *Config) { c.OPD.Mix.Iterations = -1 },
		"opd.weight.start is -1":                           func(c *Config) { c.OPD.Weight.Start = -1 },
		"opd.refresh_iterations is 0":                      func(c *Config) { c.OPD.RefreshIterations = 0 },
		"opd.ema_decay is 1":                               func(c *Config) { c.OPD.EMADecay = 1 },
		"net.group is empty":                               func(c *Config) { c.Net.Group = "" },
		"net.actor is empty":                               func(c *Config) { c.Net.Actor = nil },
		"net.critic has a layer of 0":                      func(c *Config) { c.Net.Critic = []int{4, 0} },
		"ppo.gamma is 2, want 0..1":                        func(c *Config) { c.PPO.Gamma = 2 },
		"ppo.kl_target is 0 and ppo.kl_end":                func(c *Config) { c.PPO.KLTarget = 0 },
		"ppo.calm is 3 and ppo.calm_end 0: want both":      func(c *Config) { c.PPO.Calm = 3 },
		"ppo.calm_end is NaN":                              func(c *Config) { c.PPO.CalmEnd = float32(math.NaN()) },
		"average is 1":                                     func(c *Config) { c.Average = 1 },
	} {
		c := Default()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
	}
}
