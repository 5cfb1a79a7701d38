package algo

import (
	"errors"
	"fmt"
)

// Config is how to learn. Defaults are those of Default; a step is one policy period of
// one row.
type Config struct {
	Steps int  `yaml:"steps" doc:"steps of each row in an iteration"`
	Async bool `yaml:"async" doc:"collect by the policy of before while the next learns: decoupled PPO, one update behind"`
	// Average is Polyak's averaging: with a KL target as large as ours each iteration's weights walk well or badly by chance,
	// their average always better and without the falls (doc.go has what was measured).
	Average float32 `yaml:"average" doc:"share of itself that the policy which is evaluated and written keeps each iteration, an average of the weights; 0: the newest weights"`
	Net     Net     `yaml:"net" doc:"networks"`
	PPO     PPO     `yaml:"ppo" doc:"proximal policy optimisation"`
	Warm    Warm    `yaml:"warm" doc:"cloning of the scripted trot before that"`
	OPD     OPD     `yaml:"opd" doc:"on-policy distillation from a teacher, beside PPO"`
}

// Net are the networks.
type Net struct {
	Group      string  `yaml:"group" doc:"observation group that the actor reads: policy, or critic for a teacher that sees all"`
	Actor      []int   `yaml:"actor" doc:"widths of the actor's hidden layers"`
	Critic     []int   `yaml:"critic" doc:"widths of the critic's hidden layers"`
	Normaliser bool    `yaml:"normaliser" doc:"networks see observations less their mean, over their deviation"`
	InitStd    float32 `yaml:"init_std" doc:"deviation of the actions at the start"`
	MinStd     float32 `yaml:"min_std" doc:"least deviation"`
	MaxStd     float32 `yaml:"max_std" doc:"greatest deviation"`

	Encoder        string  `yaml:"encoder" doc:"what reads the actor's group: none, or conv, a history by convolutions over time, which also estimate the velocity"`
	Frames         int     `yaml:"frames" doc:"frames of that history"`
	Channels       []int   `yaml:"channels" doc:"of each convolution: numbers at a position"`
	Kernels        []int   `yaml:"kernels" doc:"of each convolution: positions that it reads at once; the last ones end with the newest frame"`
	Strides        []int   `yaml:"strides" doc:"of each convolution: positions from one to the next"`
	Latent         int     `yaml:"latent" doc:"numbers of the history that the actor's layers read beside the newest frame and the estimated velocity"`
	VelocityWeight float32 `yaml:"velocity_weight" doc:"weight of the squared error of that velocity to the true one"`
}

// PPO are the algorithm's numbers.
type PPO struct {
	Epochs        int     `yaml:"epochs" doc:"times that each step is learnt from"`
	Minibatches   int     `yaml:"minibatches" doc:"parts of an iteration, each one optimiser step an epoch"`
	Gamma         float64 `yaml:"gamma" doc:"discount of a step"`
	Lambda        float64 `yaml:"lambda" doc:"decay of the advantage's trace"`
	Clip          float32 `yaml:"clip" doc:"how far the probability ratio may leave 1"`
	ValueClip     float32 `yaml:"value_clip" doc:"how far a value may leave the old one; 0: as far as it likes"`
	ValueWeight   float32 `yaml:"value_weight" doc:"weight of the critic's loss"`
	EntropyWeight float32 `yaml:"entropy_weight" doc:"weight of the entropy"`
	EntropyEnd    float32 `yaml:"entropy_end" doc:"the same at the end of a run of known length"`
	MaxGradNorm   float32 `yaml:"max_grad_norm" doc:"norm that gradients are cut to; 0: none"`
	Rate          float64 `yaml:"rate" doc:"learning rate at the start"`
	MinRate       float64 `yaml:"min_rate" doc:"least learning rate"`
	MaxRate       float64 `yaml:"max_rate" doc:"greatest learning rate"`
	KLTarget      float64 `yaml:"kl_target" doc:"divergence from the rollout's policy that the learning rate is steered to; 0: the rate stays"`
	KLEnd         float64 `yaml:"kl_end" doc:"the same at the end of a run of known length, reached geometrically"`
	Calm          float32 `yaml:"calm" doc:"weight of how far the actor's mean moves in a step while nothing is commanded (CAPS): noise of sensors is not to make a standing robot tremble; 0: none"`
	CalmEnd       float32 `yaml:"calm_end" doc:"the same at the end of a run of known length, reached geometrically"`
	Mirror        bool    `yaml:"mirror" doc:"learn half of the steps as seen in a mirror"`
}

// Warm is the cloning of a scripted trot.
type Warm struct {
	Rollouts int     `yaml:"rollouts" doc:"iterations of cloning; 0: none"`
	Scripted int     `yaml:"scripted" doc:"the first of them in which the script walks, not the actor"`
	Std      float32 `yaml:"std" doc:"deviation of the actor's actions meanwhile"`
	Epochs   int     `yaml:"epochs" doc:"times that each step is cloned"`
	Batch    int     `yaml:"batch" doc:"steps of one optimiser step"`
	Rate     float64 `yaml:"rate" doc:"learning rate"`
}

// Default is what learned to walk fastest: a cloned trot, then PPO.
func Default() Config {
	c := Config{
		Steps: 24, Average: 0.9,
		Net: Net{Group: "policy", Actor: []int{128, 128}, Critic: []int{128, 128}, InitStd: 0.7, MinStd: 0.1, MaxStd: 1.65},
		PPO: PPO{Epochs: 4, Minibatches: 4, Gamma: 0.98, Lambda: 0.95, Clip: 0.2, ValueWeight: 1, EntropyWeight: 0.003, EntropyEnd: 0.003,
			MaxGradNorm: 1, Rate: 1e-3, MinRate: 1e-5, MaxRate: 5e-3, KLTarget: 0.08, KLEnd: 0.08, Mirror: true},
		Warm: Warm{Rollouts: 12, Scripted: 2, Std: 0.7, Epochs: 4, Batch: 1024, Rate: 1e-3},
		OPD:  defaultOPD(),
	}
	defaultEncoder(&c.Net)
	return c
}

// Validate names the first field that cannot be.
func (c *Config) Validate() error {
	for _, f := range []struct {
		name        string
		v, min, max float64
	}{
		{"steps", float64(c.Steps), 1, 100_000},
		{"average", float64(c.Average), 0, 0.9999},
		{"net.init_std", float64(c.Net.InitStd), 1e-6, 100},
		{"net.min_std", float64(c.Net.MinStd), 1e-6, float64(c.Net.InitStd)},
		{"net.max_std", float64(c.Net.MaxStd), float64(c.Net.InitStd), 100},
		{"ppo.epochs", float64(c.PPO.Epochs), 1, 1000},
		{"ppo.minibatches", float64(c.PPO.Minibatches), 1, 1e6},
		{"ppo.gamma", c.PPO.Gamma, 0, 1},
		{"ppo.lambda", c.PPO.Lambda, 0, 1},
		{"ppo.clip", float64(c.PPO.Clip), 1e-6, 10},
		{"ppo.value_clip", float64(c.PPO.ValueClip), 0, 1e6},
		{"ppo.value_weight", float64(c.PPO.ValueWeight), 0, 1e6},
		{"ppo.entropy_weight", float64(c.PPO.EntropyWeight), 0, 1e3},
		{"ppo.entropy_end", float64(c.PPO.EntropyEnd), 0, 1e3},
		{"ppo.calm", float64(c.PPO.Calm), 0, 1e6},
		{"ppo.calm_end", float64(c.PPO.CalmEnd), 0, 1e6},
		{"ppo.max_grad_norm", float64(c.PPO.MaxGradNorm), 0, 1e9},
		{"ppo.rate", c.PPO.Rate, 1e-12, 1},
		{"ppo.min_rate", c.PPO.MinRate, 1e-12, c.PPO.Rate},
		{"ppo.max_rate", c.PPO.MaxRate, c.PPO.Rate, 1},
		{"ppo.kl_target", c.PPO.KLTarget, 0, 100},
		{"ppo.kl_end", c.PPO.KLEnd, 0, 100},
		{"warm.rollouts", float64(c.Warm.Rollouts), 0, 1e6},
		{"warm.scripted", float64(c.Warm.Scripted), 0, float64(c.Warm.Rollouts)},
		{"warm.std", float64(c.Warm.Std), 0, 100},
		{"warm.epochs", float64(c.Warm.Epochs), 1, 1000},
		{"warm.batch", float64(c.Warm.Batch), 1, 1e9},
		{"warm.rate", c.Warm.Rate, 1e-12, 1},
	} {
		if !(f.v >= f.min && f.v <= f.max) {
			return fmt.Errorf("%s is %v, want %v..%v", f.name, f.v, f.min, f.max)
		}
	}
	if c.Net.Group == "" {
		return errors.New("net.group is empty, want an observation group")
	}
	if (c.PPO.KLTarget == 0) != (c.PPO.KLEnd == 0) {
		return fmt.Errorf("ppo.kl_target is %v and ppo.kl_end %v: want both 0 or neither", c.PPO.KLTarget, c.PPO.KLEnd)
	}
	if (c.PPO.Calm == 0) != (c.PPO.CalmEnd == 0) {
		return fmt.Errorf("ppo.calm is %v and ppo.calm_end %v: want both 0 or neither", c.PPO.Calm, c.PPO.CalmEnd)
	}
	if err := errors.Join(checkWidths("net.actor", c.Net.Actor), checkWidths("net.critic", c.Net.Critic)); err != nil {
		return err
	}
	if err := c.Net.validateEncoder(); err != nil {
		return err
	}
	return c.OPD.validate()
}

// checkWidths refuses hidden layers that cannot be.
func checkWidths(name string, widths []int) error {
	if len(widths) == 0 {
		return fmt.Errorf("%s is empty, want a hidden layer", name)
	}
	for _, w := range widths {
		if w < 1 || w > 1<<16 {
			return fmt.Errorf("%s has a layer of %d, want 1..%d", name, w, 1<<16)
		}
	}
	return nil
}
