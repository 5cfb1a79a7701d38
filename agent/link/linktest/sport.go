package linktest

import (
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// sport is the robot's own controller, on the other computer.
type sport struct {
	on     bool
	limp   bool
	limpNs int64
	frames [][]byte // datagrams that came to the high-level port
}

// serveHigh answers each valid HighCmd with a HighState until the socket is closed.
func (r *Robot) serveHigh() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := r.high.ReadFromUDPAddrPort(buf)
		if err != nil {
			return // closed
		}
		var cmd wire.HighCmd
		_, bad := wire.DecodeHighCmd(buf[:n], &cmd)
		r.mu.Lock()
		r.sport.frames = append(r.sport.frames, append([]byte(nil), buf[:n]...))
		state := r.highState(&cmd)
		r.mu.Unlock()
		if bad != nil {
			continue
		}
		if answer, err := wire.AppendHighState(nil, &state, wire.FormFor(state.LevelFlag)); err == nil {
			r.high.WriteToUDPAddrPort(answer, from) // a client that has gone is its own matter
		}
	}
}

// highState is what sport mode reports: the command's mode taken at its word, and damping once limp.
func (r *Robot) highState(cmd *wire.HighCmd) (s wire.HighState) {
	s.Init()
	low := &r.body.state
	s.IMU, s.BMS, s.FootForce, s.Remote = low.IMU, low.BMS, low.FootForce, low.Remote
	for i := range low.Motor {
		m := &low.Motor[i]
		s.Motor[i] = wire.HighMotorState{
			Mode: m.Mode, Q: m.Q, Dq: m.Dq, TauEst: m.TauEst, QRaw: m.QRaw, DqRaw: m.DqRaw, Temperature: m.Temperature,
		}
	}
	s.Mode, s.GaitType, s.BodyHeight = cmd.Mode, cmd.GaitType, 0.28
	if r.sport.limp {
		s.Mode, s.GaitType, s.BodyHeight = wire.HighModeDamping, 0, 0.08
	}
	return s
}

// goLimp is what a LowCmd does to a robot in sport mode. Users report that their commands are then ignored; nothing public
// shows more, so none is answered.
func (r *Robot) goLimp(nowNs int64) {
	if !r.sport.limp {
		r.sport.limp, r.sport.limpNs = true, nowNs
		r.body.limp = true
	}
	r.body.step()
}

// Limp says whether a low-level command has made a robot in sport mode go limp, and when the first came (link.Now).
func (r *Robot) Limp() (atNs int64, limp bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sport.limpNs, r.sport.limp
}

// LeaveSport is what a person does with the remote: the high-level service stops, so that its port refuses, and the
// low level begins to obey. It does nothing when sport mode is not on.
func (r *Robot) LeaveSport() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.sport.on {
		return
	}
	r.sport.on = false
	r.body.limp = false
	r.body.sense()
	r.high.Close()
}

// HighFrames is a copy of the datagrams that came to the high-level port, oldest first.
func (r *Robot) HighFrames() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([][]byte(nil), r.sport.frames...)
}
