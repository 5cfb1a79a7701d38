package mujoco

/*
#cgo CFLAGS: -std=c11 -O2 -Wall -Wextra
#cgo linux,amd64 CFLAGS: -I${SRCDIR}/../../.deps/linux-amd64/include
#cgo linux,arm64 CFLAGS: -I${SRCDIR}/../../.deps/linux-arm64/include
#cgo linux,amd64 LDFLAGS: -L${SRCDIR}/../../.deps/linux-amd64/lib -Wl,-rpath,${SRCDIR}/../../.deps/linux-amd64/lib
#cgo linux,arm64 LDFLAGS: -L${SRCDIR}/../../.deps/linux-arm64/lib -Wl,-rpath,${SRCDIR}/../../.deps/linux-arm64/lib
#cgo LDFLAGS: -lmujoco -lm
#include <stdlib.h>
#include "claw.h"
*/
import "C"

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"
)

//go:embed assets/go1_full.xml
var assets embed.FS

// loading is held while a model is compiled: MuJoCo's compiler and log handler are global.
var loading sync.Mutex

// Model is a compiled Go1, shared by any number of Sims and Batches on any goroutines. It is
// immutable.
type Model struct {
	name     string
	c        *C.claw_model
	timestep float64
	nstate   int

	mu     sync.Mutex
	users  int // Sims alive
	closed bool
}

// Version returns the version of the MuJoCo library in use, for example "4.0.1".
func Version() string { return C.GoString(C.claw_version()) }

// Load compiles a model: the built-in one called name (Full, Lean, ...), else the MJCF file at that
// path. Errors name the file.
func Load(name string) (*Model, error) {
	if v, ok := variants[name]; ok {
		xml, err := assets.ReadFile("assets/" + Full)
		if err != nil {
			return nil, fmt.Errorf("mujoco: model %s: %w", name, err)
		}
		return load(name, xml, &v)
	}
	xml, err := assets.ReadFile("assets/" + name)
	if err != nil {
		if xml, err = os.ReadFile(name); err != nil {
			return nil, fmt.Errorf("mujoco: model %s: %w", name, err)
		}
	}
	return load(name, xml, nil)
}

// LoadXML compiles an MJCF text, called name in errors. The text must hold the Go1's parts by
// name: body trunk with free joint root and site imu, geom floor, and for each leg (FR FL RR RL)
// the hinges LEG_hip_joint, LEG_thigh_joint, LEG_calf_joint, body LEG_calf and geom LEG_foot.
func LoadXML(name string, xml []byte) (*Model, error) { return load(name, xml, nil) }

// load compiles xml, simulated as v says (nil: as the text says).
func load(name string, xml []byte, v *physics) (*Model, error) {
	text := make([]byte, C.CLAW_TEXT)
	xmlC := C.CString(string(xml))
	defer C.free(unsafe.Pointer(xmlC))

	loading.Lock()
	c := C.claw_load(xmlC, (*C.claw_physics)(unsafe.Pointer(v)), (*C.char)(unsafe.Pointer(&text[0])))
	loading.Unlock()
	if c == nil {
		return nil, fmt.Errorf("mujoco: model %s: %s", name, cText(text))
	}
	return &Model{name: name, c: c, timestep: float64(c.ids.timestep), nstate: int(c.ids.nstate)}, nil
}

// Name returns the name the model was loaded by.
func (m *Model) Name() string { return m.name }

// Timestep returns the length of one physics step in seconds.
func (m *Model) Timestep() float64 { return m.timestep }

// StateSize returns the number of float64 of a saved state.
func (m *Model) StateSize() int { return m.nstate }

// BodyInfo is the inertia of one body of a model.
type BodyInfo struct {
	Name    string
	Mass    float64    // kg
	CoM     [3]float64 // m, body frame
	Inertia [6]float64 // kg m2 about CoM in the body frame: xx yy zz xy xz yz
}

// Bodies returns the inertia of every body but the world, as compiled.
func (m *Model) Bodies() []BodyInfo {
	bodies := make([]BodyInfo, C.claw_bodies(m.c))
	for i := range bodies {
		b := &bodies[i]
		b.Name = C.GoString(C.claw_body_info(m.c, C.int(i+1), (*C.double)(&b.Mass), (*C.double)(&b.CoM[0]),
			(*C.double)(&b.Inertia[0])))
	}
	return bodies
}

// Close frees the model once the last Sim on it is closed. It may be called again.
func (m *Model) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.freeIfUnused()
}

func (m *Model) freeIfUnused() {
	if m.closed && m.users == 0 && m.c != nil {
		C.claw_model_free(m.c)
		m.c = nil
	}
}

func (m *Model) acquire() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("mujoco: model %s is closed", m.name)
	}
	m.users++
	return nil
}

func (m *Model) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users--
	m.freeIfUnused()
}

// ErrPhysics is wrapped by every error that says the physics went bad: a number that is not
// finite or beyond MuJoCo's bounds, full contact buffers, or a fatal error of the engine.
var ErrPhysics = errors.New("physics went bad")

var warningNames = [...]string{
	C.mjWARN_INERTIA:     "singular inertia matrix",
	C.mjWARN_CONTACTFULL: "too many contacts",
	C.mjWARN_CNSTRFULL:   "too many constraints",
	C.mjWARN_BADQPOS:     "bad position",
	C.mjWARN_BADQVEL:     "bad velocity",
	C.mjWARN_BADQACC:     "bad acceleration",
	C.mjWARN_BADCTRL:     "bad control",
}

// physicsError puts a status of the C core into words; engine is its text for fatal errors.
func physicsError(status int, engine string) error {
	switch {
	case status == C.CLAW_OK:
		return nil
	case status == C.CLAW_ENGINE:
		return fmt.Errorf("%w: %s", ErrPhysics, engine)
	case status == C.CLAW_NONFINITE:
		return fmt.Errorf("%w: a position or velocity is not finite", ErrPhysics)
	default:
		return fmt.Errorf("%w: %s", ErrPhysics, warningNames[status-C.CLAW_WARNING])
	}
}

func cText(b []byte) string { return C.GoString((*C.char)(unsafe.Pointer(&b[0]))) }
