package task

import "fmt"

// Commands says which velocity commands rows get: vx, vy (m/s) and wz (rad/s) in
// the body's frame, each uniform in Min..Max.
type Commands struct {
	Min [3]float32 `json:"min"`
	Max [3]float32 `json:"max"`
	// EverySeconds is the range from which the life of a command is drawn; 0, 0:
	// a command lasts as long as its episode.
	EverySeconds [2]float64 `json:"every_seconds"`
	// ZeroShare of the commands, 0..1, are 0, 0, 0.
	ZeroShare float64 `json:"zero_share"`
}

// Fixed is the same command at all times.
func Fixed(vx, vy, wz float32) Commands {
	c := [3]float32{vx, vy, wz}
	return Commands{Min: c, Max: c}
}

// MaxCommand bounds Min and Max, m/s and rad/s: no legs go as fast, and a range must
// have a length.
const MaxCommand = 100

// Check refuses commands that cannot be drawn and names the member.
func (c *Commands) Check() error {
	for i, n := range [...]string{"vx", "vy", "wz"} {
		if lo, hi := c.Min[i], c.Max[i]; !(lo >= -MaxCommand && lo <= hi && hi <= MaxCommand) {
			return fmt.Errorf("task: world: commands.min, commands.max: command %s is %v..%v, want a range within -%d..%d", n, lo, hi, MaxCommand, MaxCommand)
		}
	}
	e := c.EverySeconds
	if e != [2]float64{} && !(e[0] > 0 && e[0] <= e[1] && e[1] <= 1e6) {
		return fmt.Errorf("task: world: commands.every_seconds is %v..%v, want a range above 0, up to 1e6, or 0..0", e[0], e[1])
	}
	if !(c.ZeroShare >= 0 && c.ZeroShare <= 1) {
		return fmt.Errorf("task: world: commands.zero_share is %v, want 0..1", c.ZeroShare)
	}
	return nil
}

// Commander gives one row its commands. It may be copied, and saved and restored by
// AppendState and RestoreState.
type Commander struct {
	Now [3]float32 // the command in force
	Age float64    // s that it has been

	cfg  Commands
	rand Rand
	left float64 // s until the next one
}

// NewCommander makes row's; Reset draws the first command.
func NewCommander(cfg Commands, seed uint64, row int) Commander {
	return Commander{cfg: cfg, rand: NewRand(seed, row, StreamCommand)}
}

// Reset begins an episode with a new command.
func (c *Commander) Reset() { c.draw() }

// Advance lets dt seconds pass.
func (c *Commander) Advance(dt float64) {
	c.Age += dt
	if c.cfg.EverySeconds == [2]float64{} {
		return
	}
	// Half a step of slack: seconds that are whole steps must not end one later.
	if c.left -= dt; c.left < dt/2 {
		c.draw()
	}
}

func (c *Commander) draw() {
	zero := c.rand.Float64() < c.cfg.ZeroShare
	for i := range c.Now {
		u := float32(c.rand.Float64())
		c.Now[i] = c.cfg.Min[i] + u*(c.cfg.Max[i]-c.cfg.Min[i])
	}
	if zero {
		c.Now = [3]float32{}
	}
	c.left = c.rand.Uniform(c.cfg.EverySeconds[0], c.cfg.EverySeconds[1])
	c.Age = 0
}
