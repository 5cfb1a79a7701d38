package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/go-json-experiment/json"

	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// The page and the program speak over one WebSocket, GET /ws.
//
//	program -> page   text    hello, once, first: who walks, and what the numbers of a frame mean
//	                  binary  a frame, after each step and whenever the state of play changed
//	                  text    {"refused":"why"}: an answer to a message that was not followed
//	page -> program   text    a request, below
//
// A frame is little-endian: a head of 32 bytes, then a block per row. The page's copy of this table is web/src/protocol.ts.
//
//	head   u8 kind (1), u8 flags (1 paused, 2 the last frame of a rendering), u16 rows, u16 metrics, u16 viewers,
//	       u32 step, f32 speed (1: real time), f64 simulated s, u32 episodes ended by bad physics, u32 refused messages
//	row    f32 x3 trunk, m, world; x4 attitude w x y z; x12 joint angles, rad, SDK order; x4 normal force on the feet, N;
//	       x3 measured vx, vy (m/s, at the IMU, trunk frame), yaw rate (rad/s); x3 command; reward of the step; power, W;
//	       u32 bits (0..3 the foot touches the floor, 4 the command is a person's); u32 falls; u32 episodes ended;
//	       f32 each metric of the Env's Spec
//
// A request is one JSON object with "do" and exactly the members its kind names; row -1 is every row shown:
//
//	{"do":"pause"}  {"do":"resume"}  {"do":"step"}  {"do":"speed","speed":0.25}
//	{"do":"command","row":3,"command":[0.8,0,0]}    vx, vy (m/s), wz (rad/s) until further notice
//	{"do":"script","row":3}                         back to the command that play was started with
//	{"do":"push","row":3,"kick":[0.5,0]}            m/s added to the trunk, along its heading and to its left
//
// The page that renders a video (hello's record is set) is sent a frame only when it has shown the one before, and also sends
// {"do":"ready","codec":"vp9"}, {"do":"drawn","step":7}, {"do":"saved"} and {"do":"failed","error":"why"}; a binary message from it
// is a u64 place in the file and the bytes that belong there. It is told {"finish":true} after its last frame.
const (
	protoVersion = 1
	frameKind    = 1
	frameHead    = 32
	rowWords     = 34 // of 4 bytes, before the metrics

	flagPaused, flagLast = 1, 2
	bitSteered           = 1 << 4

	maxShown   = 16
	maxSpeed   = 16.0
	minSpeed   = 0.05
	maxKick    = 3.0 // m/s, as strong as anyone trains with
	maxCommand = 5.0 // m/s, rad/s: no Go1 is that fast
)

// hello is the first message to a page.
type hello struct {
	Version int                   `json:"v"`
	Policy  string                `json:"policy"`
	Physics string                `json:"physics"`
	World   string                `json:"world"`
	Fault   string                `json:"fault"`
	Rows    int                   `json:"rows"`     // shown
	AllRows int                   `json:"all_rows"` // simulated
	Period  float64               `json:"period"`   // s, of a step
	Metrics []string              `json:"metrics"`
	Command map[string][2]float32 `json:"command"` // the contract's ranges of vx, vy, wz
	Robot   helloRobot            `json:"robot"`
	Record  *recordPlan           `json:"record"` // null: a person looks
}

// helloRobot is the geometry that joint angles act on, m.
type helloRobot struct {
	HipX       float64 `json:"hip_x"`
	HipY       float64 `json:"hip_y"`
	HipOffset  float64 `json:"hip_offset"`
	Thigh      float64 `json:"thigh"`
	Calf       float64 `json:"calf"`
	FootRadius float64 `json:"foot_radius"`
}

// recordPlan is what a page is to render.
type recordPlan struct {
	Video  bool    `json:"video"`  // false: only the last frame is looked at
	Format string  `json:"format"` // webm or mp4
	Width  int     `json:"width"`
	Height int     `json:"height"`
	FPS    float64 `json:"fps"`
	Every  int     `json:"every"` // steps a picture
}

// frameTop is a frame's head.
type frameTop struct {
	flags, viewers int
	step           uint32
	speed          float32
	time           float64 // s
	bad, refused   uint32
}

// frameRow is what a frame says of a row beside its physics.
type frameRow struct {
	command         [3]float32
	reward          float32
	steered         bool
	falls, episodes uint32
	metrics         []float32
}

func appendFrameTop(b []byte, t *frameTop, rows, metrics int) []byte {
	le := binary.LittleEndian
	b = append(b, frameKind, byte(t.flags))
	b = le.AppendUint16(b, uint16(rows))
	b = le.AppendUint16(b, uint16(metrics))
	b = le.AppendUint16(b, uint16(t.viewers))
	b = le.AppendUint32(b, t.step)
	b = le.AppendUint32(b, math.Float32bits(t.speed))
	b = le.AppendUint64(b, math.Float64bits(t.time))
	b = le.AppendUint32(b, t.bad)
	return le.AppendUint32(b, t.refused)
}

func appendFrameRow(b []byte, s *mujoco.State, r *frameRow) []byte {
	f32 := func(v float64) { b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v))) }
	for _, part := range [][]float64{s.Pos[:], s.Quat[:], s.Q[:], s.FootForce[:], s.LinVelIMU[:2], s.AngVelBody[2:]} {
		for _, v := range part {
			f32(v)
		}
	}
	for _, v := range r.command {
		f32(float64(v))
	}
	f32(float64(r.reward))
	f32(s.Power)
	var bits uint32
	for leg, on := range s.Contacts {
		if on {
			bits |= 1 << leg
		}
	}
	if r.steered {
		bits |= bitSteered
	}
	for _, v := range [3]uint32{bits, r.falls, r.episodes} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	for _, v := range r.metrics {
		f32(float64(v))
	}
	return b
}

// request is a page's message.
type request struct {
	Do      string      `json:"do"`
	Row     *int        `json:"row"`
	Speed   *float64    `json:"speed"`
	Command *[3]float32 `json:"command"`
	Kick    *[2]float64 `json:"kick"`
	Step    *uint32     `json:"step"`
	Codec   *string     `json:"codec"`
	Error   *string     `json:"error"`

	from *viewer // who is told when it cannot be followed
}

// requestMembers are the members a request has beside "do"; those below the blank line are a rendering page's.
var requestMembers = map[string][]string{
	"pause": nil, "resume": nil, "step": nil, "speed": {"speed"},
	"command": {"row", "command"}, "script": {"row"}, "push": {"row", "kick"},

	"ready": {"codec"}, "drawn": {"step"}, "saved": nil, "failed": {"error"},
}

// members says which members a message had.
func (r *request) members() (had []string) {
	for _, m := range []struct {
		name string
		is   bool
	}{{"row", r.Row != nil}, {"speed", r.Speed != nil}, {"command", r.Command != nil}, {"kick", r.Kick != nil},
		{"step", r.Step != nil}, {"codec", r.Codec != nil}, {"error", r.Error != nil}} {
		if m.is {
			had = append(had, m.name)
		}
	}
	return had
}

// rendering says whether only the page that renders may send it.
func (r *request) rendering() bool {
	switch r.Do {
	case "ready", "drawn", "saved", "failed":
		return true
	}
	return false
}

// decodeRequest reads a page's message about rows 0..rows-1; an error names what is wrong with it.
func decodeRequest(b []byte, rows int) (*request, error) {
	r := new(request)
	if err := json.Unmarshal(b, r, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("message: %s", firstLine(err))
	}
	want, known := requestMembers[r.Do]
	if !known {
		return nil, fmt.Errorf("message: do is %.20q, which is unknown", r.Do)
	}
	if had := r.members(); fmt.Sprint(had) != fmt.Sprint(want) {
		return nil, fmt.Errorf("message: %q has members %v, want %v", r.Do, had, want)
	}
	if r.Row != nil && (*r.Row < -1 || *r.Row >= rows) {
		return nil, fmt.Errorf("message: row is %d, want 0..%d, or -1 for all", *r.Row, rows-1)
	}
	if r.Speed != nil && !(*r.Speed >= minSpeed && *r.Speed <= maxSpeed) {
		return nil, fmt.Errorf("message: speed is %v, want %v..%v", *r.Speed, minSpeed, maxSpeed)
	}
	if r.Command != nil {
		for i, name := range [3]string{"vx", "vy", "wz"} {
			if v := r.Command[i]; !(v >= -maxCommand && v <= maxCommand) {
				return nil, fmt.Errorf("message: command %s is %v, want %v..%v", name, v, -maxCommand, maxCommand)
			}
		}
	}
	if r.Kick != nil && !(math.Hypot(r.Kick[0], r.Kick[1]) <= maxKick) {
		return nil, fmt.Errorf("message: kick is %v m/s, want at most %v", *r.Kick, maxKick)
	}
	return r, nil
}

// decodeChunk reads a piece of a video: its place in the file and its bytes.
func decodeChunk(b []byte) (place int64, data []byte, err error) {
	if len(b) <= 8 {
		return 0, nil, fmt.Errorf("video: a piece of %d bytes, want more than 8", len(b))
	}
	at := binary.LittleEndian.Uint64(b)
	if at > maxVideoBytes || uint64(len(b)-8) > maxVideoBytes-at {
		return 0, nil, fmt.Errorf("video: a piece of %d bytes at %d, want it within %d", len(b)-8, at, int64(maxVideoBytes))
	}
	return int64(at), b[8:], nil
}

// firstLine is err's first line, short enough for a reply.
func firstLine(err error) string {
	s := err.Error()
	var syntax *json.SemanticError
	if errors.As(err, &syntax) && syntax.JSONPointer != "" {
		s = fmt.Sprintf("%s at %s", s, syntax.JSONPointer)
	}
	for i, c := range s {
		if c == '\n' || i >= 200 {
			return s[:i]
		}
	}
	return s
}
