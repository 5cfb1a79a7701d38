package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/sim/virtual"
)

const robotLong = `robot is a Unitree Go1 on UDP, with MuJoCo's physics: it lies folded, answers each valid low-level command with a
state, and its motors do what the commands say. It obeys whoever sends a valid frame, and without commands it goes on
executing the last one for ever (--on-silence). Its log (--log) holds physics' truth and everything that was received.
With --boot hung it hangs from a gantry, and a person turns it, moves its joints and presses its feet.

A fault is KIND[,PARAM=VALUE...]@START[+DURATION][/EVERY], times in seconds (or 40ms); --faults prints kinds and parameters.
  START     seconds since the robot's start, which is t in GET /status, and at once where that has passed; now; walk[+S], S after it
            first walked faster than 0.3 m/s for 1 s; stand[+S], S after it first stood still for 0.5 s
  DURATION  how long; without it the fault stays, but for push, press, turn and hand, whose ms say how long. Behind walk and stand the
            first + is START's: walk+2 begins after 2 s and stays, walk+2+0.5 then lasts 0.5 s, now+0.5 begins now
  samples=N among the parameters ends it after N states instead; some kinds count commands or steps (--faults)
  EVERY     it begins anew every so often, from start to start; it must end before

A script (--script) is a YAML list. An item is a fault's text, or a mapping: kind, params (a mapping), from (start, now, walk, stand;
without it start), at, for and every (numbers of seconds, or 40ms) and samples.

While the robot runs, POST /fault at --control's address takes such a mapping as JSON, its times as plain numbers, or {"fault":TEXT}; GET /status says how
the robot does and which faults are in force, GET /faults is --faults.`

const robotExample = `clawsim robot --log robot.jsonl
clawsim robot --boot sport --listen 127.0.0.1:0 --json
clawsim robot --fault 'joint_speed,joint=FR_calf,value=20,samples=5@walk+2' --fault 'push,n=60@stand+1/5'
clawsim robot --boot hung --fault 'imu_mirror,axis=y@0' --fault 'turn,axis=roll,rad=0.5@5' --fault 'hand,joint=FR_calf,rad=-0.3@8'

clawsim robot --control 127.0.0.1:8095 &
curl -d '{"fault":"remote_buttons,buttons=L2+B@now+0.5"}' http://127.0.0.1:8095/fault
curl -d '{"kind":"battery","params":{"soc":9},"from":"stand","at":3,"for":0.5}' http://127.0.0.1:8095/fault

cat > troubles.yaml <<END
- drop_state,p=0.02@0                  # 2 % of the states, always
- push,n=60,dir=90@stand+1/5           # every 5 s a push to the left
- kind: joint_speed                    # joint_speed,joint=FR_calf,value=20,samples=5@walk+2
  params: {joint: FR_calf, value: 20}
  from: walk
  at: 2
  samples: 5
- {kind: battery, params: {soc: 9}, from: stand, at: 3, for: 0.5, every: 10}
END
clawsim robot --script troubles.yaml`

// robotOptions are the flags that are no configuration.
type robotOptions struct {
	log       string
	faults    []string
	script    string
	footForce string
	remote    string
	kinds     bool
	json      bool
}

func newRobot() []*cobra.Command {
	loader := cli.NewLoader(virtual.DefaultConfig)
	var o robotOptions
	cmd := &cobra.Command{
		Use:     "robot",
		Short:   "Run a virtual Go1 on UDP",
		Long:    robotLong,
		Example: robotExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.kinds {
				_, err := io.WriteString(cmd.OutOrStdout(), virtual.FaultHelp())
				return err
			}
			cfg, err := loader.Load()
			if err != nil {
				return err
			}
			if err := o.apply(&cfg); err != nil {
				return cli.Usage(err)
			}
			return runRobot(cmd, &cfg, &o)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	for _, k := range []struct{ flag, key string }{
		{"listen", "listen"}, {"high", "listen_high"}, {"boot", "boot"}, {"lockstep", "lockstep"}, {"seed", "seed"},
		{"control", "control"}, {"log-every-frame", "log_every_frame"}, {"soc", "battery.soc_percent"}, {"on-silence", "on_silence"},
		{"crc", "crc"}, {"sn", "identity.sn"},
	} {
		loader.AddKeyFlag(flags, k.flag, k.key)
	}
	flags.StringVar(&o.log, "log", "", "write the log (JSON Lines) to `FILE`")
	flags.StringArrayVar(&o.faults, "fault", nil, "schedule a `FAULT`; may be repeated")
	flags.StringVar(&o.script, "script", "", "schedule the faults of a YAML `FILE`, a list such as the one under Examples")
	flags.StringVar(&o.footForce, "foot-force", "", "`KIND` of foot sensor fault, as reported from real robots: zero, offset (20 40 60 80 counts, drift 1/s) or stuck (FL at 120); none without it")
	flags.StringVar(&o.remote, "remote", "", "hand remote `STATE`: present or absent; without it the configuration's, present")
	flags.BoolVar(&o.kinds, "faults", false, "print the kinds of faults and their parameters, and exit")
	flags.BoolVar(&o.json, "json", false, "print one JSON object when ready and one, the summary, at the end")
	loader.AddFlags(flags)
	config := loader.Command("clawsim")
	config.Short = "Show the virtual robot's configuration, or check a file"
	return []*cobra.Command{cmd, config}
}

// apply puts flags that stand for several keys, and faults, into the configuration.
func (o *robotOptions) apply(cfg *virtual.Config) error {
	switch o.remote {
	case "":
	case "present", "absent":
		cfg.Remote.Present = o.remote == "present"
	default:
		return fmt.Errorf("robot: --remote: %q, want present or absent", o.remote)
	}
	switch o.footForce {
	case "":
	case "zero":
		cfg.Faults = append(cfg.Faults, virtual.Fault{Kind: "foot_force_zero"})
	case "offset":
		cfg.Noise.FootOffset, cfg.Noise.FootDrift = [4]float64{20, 40, 60, 80}, [4]float64{1, 1, 1, 1}
	case "stuck":
		cfg.Faults = append(cfg.Faults, virtual.Fault{Kind: "foot_force_stuck"})
	default:
		return fmt.Errorf("robot: --foot-force: %q, want zero, offset or stuck", o.footForce)
	}
	for _, text := range o.faults {
		f, err := virtual.ParseFault(text)
		if err != nil {
			return fmt.Errorf("robot: --fault: %w", err)
		}
		cfg.Faults = append(cfg.Faults, f)
	}
	if o.script != "" {
		file, err := os.Open(o.script)
		if err != nil {
			return fmt.Errorf("robot: --script: %w", err)
		}
		defer file.Close()
		faults, err := virtual.ReadScript(o.script, file)
		if err != nil {
			return fmt.Errorf("robot: --script: %w", err)
		}
		cfg.Faults = append(cfg.Faults, faults...)
	}
	return cfg.Validate()
}

// ready is the first line of --json.
type ready struct {
	Ready   bool   `json:"ready"`
	Ahead   bool   `json:"ahead"` // its threads come before ordinary programs
	Low     string `json:"low"`
	High    string `json:"high,omitempty"`    // only while sport mode answers
	Control string `json:"control,omitempty"` // only when asked for
	Boot    string `json:"boot"`
	Seed    uint64 `json:"seed"`
}

func runRobot(cmd *cobra.Command, cfg *virtual.Config, o *robotOptions) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	cfg.Version = cli.ReadBuild("clawsim").Version
	if o.log != "" {
		file, err := os.Create(o.log)
		if err != nil {
			return fmt.Errorf("robot: --log: %w", err)
		}
		cfg.Log = file
		defer func() {
			if cerr := file.Close(); err == nil && cerr != nil {
				err = fmt.Errorf("robot: --log: %w", cerr)
			}
		}()
	}
	// Before the physics' thread exists, so that its own priority is set last.
	ahead := !cfg.Lockstep && cfg.Priority > 0 && cli.Ahead()
	r, err := virtual.New(*cfg)
	if err != nil {
		return err
	}
	defer r.Close()
	hello := ready{Ready: true, Ahead: ahead, Low: r.Addr().String(), Boot: string(cfg.Boot), Seed: cfg.Seed}
	if cfg.Boot == virtual.BootSport {
		hello.High = r.HighAddr().String()
	}
	if cfg.Control.IsValid() {
		c, err := virtual.ServeControl(r, cfg.Control)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		hello.Control = c.Addr().String()
	}
	out := cmd.OutOrStdout()
	if o.json {
		err = cli.PrintReady(out, hello)
	} else {
		err = hello.print(out)
	}
	if err != nil {
		return err
	}
	if err := r.Run(ctx); err != nil {
		return err
	}
	s := r.Summary()
	if o.json {
		return cli.PrintJSON(out, s)
	}
	_, err = fmt.Fprintf(out, "%.1f s: %d commands answered, %d refused; %s, %d falls; walked %.1f s at %.2f m/s\n",
		s.Seconds, s.Answered, total(s.Rejected), s.Posture, s.Falls, s.WalkSeconds, s.VxMean)
	return err
}

func (h *ready) print(out io.Writer) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "virtual Go1 at udp://%s, boot %s", h.Low, h.Boot)
	if h.High != "" {
		fmt.Fprintf(w, ", sport mode at %s", h.High)
	}
	if h.Control != "" {
		fmt.Fprintf(w, ", control at http://%s", h.Control)
	}
	fmt.Fprintln(w)
	return w.Flush()
}

func total(counts map[string]uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}
