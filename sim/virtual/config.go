package virtual

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/netip"

	"github.com/goccy/go-yaml"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// Boot is how the robot is found at start.
type Boot string

// Boots.
const (
	BootFolded Boot = "folded" // lying, motors without power
	BootHome   Boot = "home"   // standing on its own motors until the first command
	BootSport  Boot = "sport"  // standing under the maker's sport mode
	BootHung   Boot = "hung"   // hanging from a gantry, legs in the air, motors without power
)

// Config of a virtual robot.
type Config struct {
	Listen     netip.AddrPort `yaml:"listen" doc:"UDP address of the low level; port 0 lets the kernel choose"`
	ListenHigh netip.AddrPort `yaml:"listen_high" doc:"UDP address of sport mode, bound only with boot sport; empty is the low level's port + 75"`
	Control    netip.AddrPort `yaml:"control" doc:"loopback HTTP address of the control interface (POST /fault, GET /status); empty is none"`
	Boot       Boot           `yaml:"boot" doc:"folded: lies; home: stands until the first command; sport: the maker's sport mode stands; hung: hangs from a gantry, legs in the air"`
	Lockstep   bool           `yaml:"lockstep" doc:"time moves 2 ms a command instead of by itself, for tests on busy machines"`
	Seed       uint64         `yaml:"seed" doc:"seed of noise, biases and faults"`
	CRC        CRC            `yaml:"crc" doc:"form of a command's CRC that is taken: any, plain or encrypted"`
	OnSilence  Silence        `yaml:"on_silence" doc:"what the motors do when no command comes: hold the last one for ever, damp:TIME after TIME, or limp:TIME"`
	Priority   int            `yaml:"priority" doc:"SCHED_FIFO priority of the robot's thread in real time where the system allows it; 0 leaves it"`
	SpinUs     float64        `yaml:"spin_us" unit:"us" doc:"last part before each step that is spun instead of slept"`

	LogEveryFrame bool `yaml:"log_every_frame" doc:"log each accepted command; for short tests"`

	Identity Identity `yaml:"identity" doc:"who the robot says it is, in each state"`
	Remote   Remote   `yaml:"remote" doc:"hand remote"`
	Battery  Battery  `yaml:"battery" doc:"battery"`
	Body     Body     `yaml:"body" doc:"the robot's own physics"`
	Noise    Noise    `yaml:"noise" doc:"sensors; sigma is of one sample at 500 Hz"`

	// Log takes the records; nil for none. Writes come from one goroutine.
	Log io.Writer `yaml:"-"`
	// Faults are scheduled from the start.
	Faults []Fault `yaml:"-"`
	// Version goes into the log's first record.
	Version string `yaml:"-"`
}

// CRC says which commands the robot takes, by the form of their CRC.
type CRC string

// Forms of a command's CRC. A frame in a form that is not taken is refused with the reason level.
const (
	CRCAny       CRC = "any"
	CRCPlain     CRC = "plain"
	CRCEncrypted CRC = "encrypted"
)

func (c CRC) takes(form wire.CRCForm) bool { return c == CRCAny || string(c) == form.String() }

// Identity is what the header of each state says of the robot, two numbers of 32 bits each. What a real Go1 writes there is not public;
// the maker's own frames hold zeros.
type Identity struct {
	SN      [2]uint32 `yaml:"sn" doc:"serial number"`
	Version [2]uint32 `yaml:"version" doc:"of the robot's own software"`
}

// Remote is the hand remote at start.
type Remote struct {
	Present bool `yaml:"present" doc:"its 40 bytes begin with 55 51 and its sticks rest; else all are zero"`
}

// Battery at start.
type Battery struct {
	SOCPercent float64 `yaml:"soc_percent" unit:"%" doc:"state of charge"`
	CapacityWh float64 `yaml:"capacity_wh" unit:"Wh" doc:"energy at 100 %"`
	IdleW      float64 `yaml:"idle_w" unit:"W" doc:"what the robot takes without moving"`
}

// Body is what makes one robot differ from another.
type Body struct {
	Friction float64 `yaml:"friction" doc:"sliding friction with the floor"`
	Payload  float64 `yaml:"payload_kg" unit:"kg" doc:"mass added to the trunk"`
	AmbientC float64 `yaml:"ambient_c" unit:"C" doc:"temperature of room and cold motors"`
	HeatC    float64 `yaml:"heat_c" unit:"C/(N·m)^2" doc:"steady rise of a motor's temperature by torque squared"`
	HeatS    float64 `yaml:"heat_s" unit:"s" doc:"time constant of that rise"`
}

// Noise is what the sensors add. Biases and offsets are drawn once from the seed, uniform within plus and minus the figure.
// None of it comes from a real Go1's recording; the figures are those of parts of its class and lie well inside what policies
// are trained with (gyro 0.2, joint speed 1.5, gravity 0.05).
type Noise struct {
	Gyro       float64 `yaml:"gyro" unit:"rad/s" doc:"sigma"`
	GyroBias   float64 `yaml:"gyro_bias" unit:"rad/s" doc:"constant, each axis"`
	Acc        float64 `yaml:"acc" unit:"m/s2" doc:"sigma"`
	AccBias    float64 `yaml:"acc_bias" unit:"m/s2" doc:"constant, each axis"`
	Tilt       float64 `yaml:"tilt" unit:"rad" doc:"constant error of roll and pitch in the quaternion"`
	YawDrift   float64 `yaml:"yaw_drift" unit:"rad/s" doc:"drift of the quaternion's yaw"`
	Encoder    float64 `yaml:"encoder" unit:"rad" doc:"one step of the joint angle (15 bits a turn behind a gear of 6.33)"`
	JointZero  float64 `yaml:"joint_zero" unit:"rad" doc:"constant error of each joint's zero"`
	JointSpeed float64 `yaml:"joint_speed" unit:"rad/s" doc:"sigma"`
	Torque     float64 `yaml:"torque" unit:"N·m" doc:"sigma of the torque estimate"`

	FootScale  float64    `yaml:"foot_scale" unit:"1/N" doc:"counts of a foot sensor by force"`
	FootOffset [4]float64 `yaml:"foot_offset" doc:"counts without load, FR FL RR RL"`
	FootDrift  [4]float64 `yaml:"foot_drift" unit:"1/s" doc:"drift of that offset"`
	FootNoise  float64    `yaml:"foot_noise" doc:"sigma, counts"`
}

// DefaultConfig is a healthy robot lying on the floor.
func DefaultConfig() Config {
	return Config{
		Listen:   netip.MustParseAddrPort("127.0.0.1:8007"),
		Boot:     BootFolded,
		CRC:      CRCAny,
		Identity: Identity{SN: [2]uint32{go1.VirtualSN, 1}, Version: [2]uint32{1, 0}},
		Seed:     1,
		Priority: 70,
		SpinUs:   30,
		Remote:   Remote{Present: true},
		Battery:  Battery{SOCPercent: 90, CapacityWh: 130, IdleW: 25},
		Body:     Body{Friction: 0.8, AmbientC: 28, HeatC: 0.25, HeatS: 300},
		Noise: Noise{
			Gyro: 0.01, GyroBias: 0.003, Acc: 0.05, AccBias: 0.05, Tilt: 0.003, YawDrift: 0.0005,
			Encoder: 3.03e-5, JointZero: 0.004, JointSpeed: 0.05, Torque: 0.15,
			FootScale: 2.5, FootOffset: [4]float64{18, 25, 11, 30}, FootDrift: [4]float64{0.02, -0.03, 0.01, 0.02}, FootNoise: 1.5,
		},
	}
}

// Validate names the first key that cannot be meant.
func (c *Config) Validate() error {
	for _, a := range []struct {
		key  string
		addr netip.AddrPort
		must bool
	}{{"listen", c.Listen, true}, {"listen_high", c.ListenHigh, false}, {"control", c.Control, false}} {
		if !a.addr.IsValid() && !a.must {
			continue
		}
		if !a.addr.IsValid() || !a.addr.Addr().Unmap().Is4() {
			return fmt.Errorf("virtual: %s: %v is not an IPv4 address and port", a.key, a.addr)
		}
	}
	if c.Control.IsValid() && !c.Control.Addr().IsLoopback() {
		return fmt.Errorf("virtual: control: %v is not a loopback address, and this interface has no access control", c.Control)
	}
	switch c.Boot {
	case BootFolded, BootHome, BootSport, BootHung:
	default:
		return fmt.Errorf("virtual: boot: %q, want folded, home, sport or hung", c.Boot)
	}
	switch c.CRC {
	case CRCAny, CRCPlain, CRCEncrypted:
	default:
		return fmt.Errorf("virtual: crc: %q, want any, plain or encrypted", c.CRC)
	}
	n := &c.Noise
	type bound struct {
		key       string
		v, lo, hi float64
	}
	bounds := []bound{
		{"priority", float64(c.Priority), 0, 99},
		{"spin_us", c.SpinUs, 0, 1000},
		{"battery.soc_percent", c.Battery.SOCPercent, 0, 100},
		{"battery.capacity_wh", c.Battery.CapacityWh, 1, 10000},
		{"battery.idle_w", c.Battery.IdleW, 0, 500},
		{"body.friction", c.Body.Friction, 0.01, 10},
		{"body.payload_kg", c.Body.Payload, -4, 20},
		{"body.ambient_c", c.Body.AmbientC, -40, 60},
		{"body.heat_c", c.Body.HeatC, 0, 100},
		{"body.heat_s", c.Body.HeatS, 0.1, 1e5},
		{"noise.gyro", n.Gyro, 0, 5}, {"noise.gyro_bias", n.GyroBias, 0, 5},
		{"noise.acc", n.Acc, 0, 50}, {"noise.acc_bias", n.AccBias, 0, 50},
		{"noise.tilt", n.Tilt, 0, 1}, {"noise.yaw_drift", n.YawDrift, 0, 1},
		{"noise.encoder", n.Encoder, 0, 0.1}, {"noise.joint_zero", n.JointZero, 0, 0.5},
		{"noise.joint_speed", n.JointSpeed, 0, 20}, {"noise.torque", n.Torque, 0, 20},
		{"noise.foot_scale", n.FootScale, 0, 1000}, {"noise.foot_noise", n.FootNoise, 0, 1000},
	}
	for leg := range 4 {
		bounds = append(bounds, bound{"noise.foot_offset", n.FootOffset[leg], -32768, 32767},
			bound{"noise.foot_drift", n.FootDrift[leg], -1000, 1000})
	}
	for _, b := range bounds {
		if math.IsNaN(b.v) || b.v < b.lo || b.v > b.hi {
			return fmt.Errorf("virtual: %s: %v, want %v..%v", b.key, b.v, b.lo, b.hi)
		}
	}
	for i := range c.Faults {
		if err := c.admits(&c.Faults[i]); err != nil {
			return err
		}
	}
	return nil
}

// json is the configuration with the keys of its YAML form.
func (c *Config) json() []byte {
	b, err := yaml.MarshalWithOptions(c, yaml.JSON())
	if err != nil { // not for plain fields
		return []byte("null")
	}
	return bytes.TrimSpace(b)
}
