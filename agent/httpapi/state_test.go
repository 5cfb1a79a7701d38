package httpapi

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/estimate"
	"github.com/openclaw-rl/openclaw/agent/latency"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

// walking is a snapshot with every part filled.
func walking() control.Snapshot {
	var s control.Snapshot
	s.NowNs, s.Mode, s.Phase, s.HasPolicy, s.HaveState = 12_345_678_901, control.Policy, control.PhaseWalk, true, true
	s.Verdict = safety.Verdict{
		Severity: safety.StandHold, Fault: safety.Tilt, Joint: 2, SinceNs: 12_000_000_000,
		Warnings: 1<<safety.RemoteAbsent | 1<<safety.Tilt,
	}
	s.StateAgeNs, s.TiltRad = 1_500_000, 0.7
	s.State.IMU.Quaternion = [4]float32{1, 0, 0, 0}
	s.State.IMU.Gyroscope = [3]float32{0.1, 0.2, 0.3}
	for i := range s.State.Motor {
		s.State.Motor[i].Q = float32(i) / 10
		s.State.Motor[i].Mode = 10
		s.State.Motor[i].Temperature = int8(30 + i)
	}
	s.State.BMS.SOC, s.State.BMS.Current = 87, -2500
	s.State.BMS.CellVoltage = [10]uint16{3712, 3712}
	s.Velocity, s.VelocitySD, s.EstimatorOK = [3]float32{0.75, 0, -0.01}, [3]float32{0.02, 0.02, 0.05}, true
	s.Contacts[1] = estimate.Contact{State: estimate.ContactGround, Probability: 0.9}
	s.FootForce[1] = estimate.SensorOK
	s.Asked, s.Command, s.Source, s.CommandAgeNs = [3]float32{0.8, 0, 0}, [3]float32{0.8, 0, 0}, control.SourceHTTP, 40_000_000
	s.Target[3], s.Kp[3], s.Kd[3] = 0.1, 20, 0.5
	s.GuardAlive = true
	s.EndToEndNs, s.PolicyAgeNs = 8_000_000, 3_000_000
	s.Limited = safety.Counters{Clamped: 1, Capped: 2, Refused: 3}
	s.Stats = control.Stats{Ticks: 1000, Missed: 1, Sent: 998, SendErrors: 2, States: 990, Trips: 0, Policy: 100, LatePolicy: 4}
	for i := range int64(1000) {
		s.Stats.Lateness.Add(i * 100)
		s.Stats.RxToTx.Add(20_000)
	}
	s.Stats.PolicyStep.Add(300_000)
	return s
}

func TestState(t *testing.T) {
	f := &fakeAgent{snap: walking()}
	r := start(t, f)
	a := r.do("GET", "/api/v1/state", "")
	var got map[string]any
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.status != 200 {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	describes(t, openAPI(t), map[string]any{"$ref": "#/components/schemas/State"}, got, "state")
	for _, part := range []string{
		`"clock":12.345678901,"mode":"policy","phase":"walk","armed":true,"lockstep":false,"realtime":"SCHED_FIFO 80","severity":"stand_hold"`,
		`"fault":{"number":7,"name":"tilt","title":"The body tilts too far","severity":"stand_hold","joint":"FR_calf_joint","since":12.000000000,"remedy":"`,
		`"warnings":["tilt","remote_absent"],"state_age_ms":1.5`,
		`"imu":{"quaternion":[1,0,0,0],"gyroscope":[0.1,0.2,0.3],"accelerometer":[0,0,0],"rpy":[0,0,0],"tilt_rad":0.7}`,
		`{"name":"FL_hip_joint","q":0.3,"dq":0,"tau":0,"target":0.1,"kp":20,"kd":0.5,"temperature_c":33,"motor_mode":10}`,
		`"velocity":{"vx":0.75,"vy":0,"vz":-0.01,"sigma":[0.02,0.02,0.05],"ok":true}`,
		`{"leg":"FL","state":"ground","probability":0.9,"sensor":"ok"}`,
		`"battery":{"soc_percent":87,"current_ma":-2500,"cells_mv":[3712,3712,0,0,0,0,0,0,0,0],"plausible":true}`,
		`"remote":{"present":false,"allowed_without":false}`,
		`"command":{"asked":[0.8,0,0],"followed":[0.8,0,0],"source":"http","age_ms":40,"range":{"vx":[-1,1.5],"vy":[-0.5,0.5],"wz":[-1,1]}}`,
		`"policy":{"loaded":true,"name":"walk","sha256":"0123","source":"file","age_ms":3,"end_to_end_ms":8,"steps":100,"late":4}`,
		`"loop":{"ticks":1000,"missed":1,"sent":998,"send_errors":2,"states":990,"trips":0,"late_p50_us":`,
		`"late_max_us":99.9,"rx_to_tx_p50_us":20,"rx_to_tx_p99_us":20,"policy_p50_us":300,"policy_p99_us":300}`,
		`"guard":{"pid":77,"alive":true,"allowed_without":false,"latched":true,"sending":false,"trips":2,"frames":40,"kill_errors":3,"late_p50_us":3,"late_p99_us":3,"late_p999_us":3,"late_max_us":3},` +
			`"limited":{"clamped":1,"capped":2,"refused":3},"link":{"accepted":7,"crc":2}}`,
	} {
		if !strings.Contains(a.body, part) {
			t.Errorf("no %s in\n%s", part, a.body)
		}
	}

	f.set(func(s *control.Snapshot) { *s = control.Snapshot{} })
	a = r.do("GET", "/api/v1/state", "")
	for _, part := range []string{`"clock":0.000000000,"mode":"idle","phase":"","armed":false`, `"fault":null,"warnings":[]`, `"imu":null,"joints":[],`, `"contacts":[],"battery":null`} {
		if !strings.Contains(a.body, part) {
			t.Errorf("empty: no %s in\n%s", part, a.body)
		}
	}
}

func TestStateNotFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	s := walking()
	s.State.IMU.Quaternion = [4]float32{nan, inf, -inf, 1e-9}
	s.State.Motor[0].Q, s.TiltRad, s.Velocity[0], s.Contacts[0].Probability = nan, math.Inf(-1), inf, nan
	s.NowNs = math.MinInt64
	r := start(t, &fakeAgent{snap: s})
	a := r.do("GET", "/api/v1/state", "")
	for _, part := range []string{
		`"clock":-9223372036.854775808`, `"quaternion":[null,null,null,1e-09]`, `"tilt_rad":null`,
		`{"name":"FR_hip_joint","q":null,`, `"velocity":{"vx":null,`, `"probability":null`,
	} {
		if !strings.Contains(a.body, part) {
			t.Errorf("%d: no %s in\n%s", a.status, part, a.body)
		}
	}
	if !json.Valid([]byte(a.body)) {
		t.Error("not JSON")
	}
}

func TestOutsideEnumerations(t *testing.T) {
	s := walking()
	s.Mode, s.Phase, s.Source, s.Verdict.Fault, s.Verdict.Severity, s.Verdict.Joint = 200, 201, 202, 203, 204, 205
	s.FootForce[0], s.Contacts[0].State = 206, 207
	s.Verdict.Warnings = 1<<63 | 1<<safety.Tilt
	r := start(t, &fakeAgent{snap: s})
	if a := r.do("GET", "/api/v1/state", ""); a.status != 200 ||
		!strings.Contains(a.body, `"mode":"200","phase":"201"`) || !strings.Contains(a.body, `"name":"fault_203"`) || !strings.Contains(a.body, `"warnings":["tilt","fault_63"]`) || !strings.Contains(a.body, `"joint":null`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	for _, path := range []string{"/metrics", "/healthz"} {
		if a := r.do("GET", path, ""); a.status != 200 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

func TestBadLinkCounters(t *testing.T) {
	info := testInfo
	info.LinkCounters = func() map[string]uint64 { return map[string]uint64{"\xff": 1} }
	s, err := New(DefaultConfig(), &fakeAgent{}, info)
	if err != nil {
		t.Fatal(err)
	}
	s.port.Store(80)
	for path, status := range map[string]int{"/api/v1/state": 500, "/metrics": 200} {
		w := httptest.NewRecorder()
		req := httptest.NewRequest("GET", path, nil)
		req.Host = "127.0.0.1"
		s.engine.ServeHTTP(w, req)
		if w.Code != status {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestPulse(t *testing.T) {
	var p pulse
	at := time.Now()
	for i, step := range []struct {
		nowNs int64
		after time.Duration
		still time.Duration
	}{
		{0, 0, aliveFor}, // never ticked
		{5, 10, 0},
		{5, 20, 10},
		{6, 30, 0},
		{4, 40, 0}, // another clock is as good
		{4, 40 + aliveFor, aliveFor},
	} {
		if still := p.see(step.nowNs, at.Add(step.after)); still != step.still {
			t.Errorf("step %d: still for %v, want %v", i, still, step.still)
		}
	}
}

func TestHealthAndReady(t *testing.T) {
	f := &fakeAgent{ticking: true}
	r := start(t, f)
	get := func(path string) (int, []string) {
		a := r.do("GET", path, "")
		var h health
		if err := json.Unmarshal([]byte(a.body), &h); err != nil || h.OK != (a.status == 200) {
			t.Errorf("%s: %d %s: %v", path, a.status, a.body, err)
		}
		return a.status, h.Reasons
	}
	if status, reasons := get("/healthz"); status != 200 || len(reasons) != 0 {
		t.Errorf("healthz: %d %q", status, reasons)
	}
	for _, test := range []struct {
		change func(*control.Snapshot)
		names  []string // one a reason
	}{
		{func(s *control.Snapshot) {}, []string{"not armed", "no guard", "no state"}},
		{func(s *control.Snapshot) { s.Lockstep = true }, []string{"not armed", "no state"}},
		{func(s *control.Snapshot) { s.Lockstep, s.NoGuard = false, true }, []string{"not armed", "no state"}},
		{func(s *control.Snapshot) { s.NoGuard, s.GuardAlive = false, true }, []string{"not armed", "no state"}},
		{func(s *control.Snapshot) { s.Mode = control.Listen }, []string{"no state"}},
		{func(s *control.Snapshot) { s.HaveState = true }, nil},
		{func(s *control.Snapshot) { s.StateAgeNs = 39_999_999 }, nil},
		{func(s *control.Snapshot) { s.StateAgeNs = 40_000_000 }, []string{"40 ms old"}},
		{func(s *control.Snapshot) { s.StateAgeNs, s.Verdict.Warnings = 0, 1<<safety.MotorHot }, nil},
		{func(s *control.Snapshot) { s.Verdict.Fault, s.Verdict.Severity = safety.Tilt, safety.Damp }, []string{"fault 7 tilt"}},
		{func(s *control.Snapshot) { s.Mode, s.Verdict.Fault = control.EStop, safety.OperatorCut }, []string{"fault 26 operator_cut"}},
		{func(s *control.Snapshot) { s.Verdict.Fault = safety.NoFault }, []string{"stopped"}},
		{func(s *control.Snapshot) { s.Mode = control.Policy }, nil},
	} {
		f.set(test.change)
		status, reasons := get("/readyz")
		want := 200
		if test.names != nil {
			want = 503
		}
		if status != want || len(reasons) != len(test.names) {
			t.Errorf("readyz: %d %q, want %d %q", status, reasons, want, test.names)
			continue
		}
		for i, name := range test.names {
			if !strings.Contains(reasons[i], name) {
				t.Errorf("readyz: %q, want it to name %q", reasons[i], name)
			}
		}
	}
	f.mu.Lock()
	f.ticking = false
	f.mu.Unlock()
	r.pulse.mu.Lock()
	r.pulse.nowNs, r.pulse.moved = f.snap.NowNs, time.Now().Add(-aliveFor)
	r.pulse.mu.Unlock()
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, reasons := get(path); status != 503 || len(reasons) != 1 || !strings.Contains(reasons[0], "not ticked") {
			t.Errorf("%s with a stuck loop: %d %q", path, status, reasons)
		}
	}
}

func TestMetrics(t *testing.T) {
	r := start(t, &fakeAgent{snap: walking()})
	a := r.do("GET", "/metrics", "", "Accept", "application/openmetrics-text; version=1.0.0")
	if kind := a.header.Get("Content-Type"); a.status != 200 || !strings.HasPrefix(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8") {
		t.Errorf("%d, %s", a.status, kind)
	}
	if !strings.HasSuffix(a.body, "# EOF\n") {
		t.Errorf("the end is %q", a.body[max(0, len(a.body)-40):])
	}
	for _, line := range []string{
		`openclaw_agent_build_info{commit="abc",contract_source="file",policy="walk",policy_sha256="0123",robot="unitree-go1",version="1.2.3"} 1.0`,
		"# TYPE openclaw_loop_lateness_seconds histogram",
		`openclaw_loop_lateness_seconds_bucket{le="1.024e-06"} 11`,
		`openclaw_loop_lateness_seconds_bucket{le="+Inf"} 1000`,
		"openclaw_loop_lateness_seconds_count 1000",
		"openclaw_loop_lateness_max_seconds 9.99e-05",
		"openclaw_loop_ticks_total 1000.0",
		"openclaw_loop_deadline_misses_total 1.0",
		"openclaw_frames_sent_total 998.0",
		"openclaw_states_total 990.0",
		`openclaw_link_datagrams_total{what="crc"} 2.0`,
		`openclaw_limited_total{how="refused"} 3.0`,
		"openclaw_policy_steps_total 100.0",
		"openclaw_guard_alive 1.0",
		"openclaw_guard_pid 77.0",
		"openclaw_guard_trips_total 2.0",
		"openclaw_guard_frames_total 40.0",
		"openclaw_guard_kill_errors_total 3.0",
		"openclaw_guard_latched 1.0",
		"openclaw_guard_sending 0.0",
		"openclaw_guard_lateness_seconds_count 1",
		`openclaw_mode{mode="policy"} 1.0`,
		`openclaw_mode{mode="idle"} 0.0`,
		`openclaw_fault_active{fault="tilt",number="7"} 1.0`,
		`openclaw_fault_active{fault="power",number="12"} 0.0`,
		`openclaw_warning_active{fault="remote_absent",number="18"} 1.0`,
		"openclaw_state_age_seconds 0.0015",
		`openclaw_joint_temperature_celsius{joint="FR_calf_joint"} 32.0`,
		"openclaw_battery_charge_ratio 0.87",
		`openclaw_estimated_velocity_meters_per_second{axis="vx"} 0.75`,
		"# TYPE go_goroutines gauge",
		"# TYPE process_resident_memory_bytes gauge",
	} {
		if !strings.Contains(a.body, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	plain := r.do("GET", "/metrics", "")
	var ours strings.Builder
	for line := range strings.Lines(plain.body) {
		if strings.Contains(line, "openclaw_") {
			ours.WriteString(line)
		}
	}
	problems, err := promlint.New(strings.NewReader(ours.String())).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %+v", err, problems)
	}
}

// TestHistogramBuckets: the octaves shown hold exactly what is no longer than they.
func TestHistogramBuckets(t *testing.T) {
	for _, ns := range []int64{0, 1, 64, 1023, 1024, 1025, 5_000, 1_999_999, 2_000_000, 67_108_863, 67_108_864, 1e10} {
		var h latency.Histogram
		h.Add(ns)
		var s control.Snapshot
		s.Stats.Lateness = h
		body := scrape(t, &fakeAgent{snap: s})
		for line := range strings.Lines(body) {
			rest, ok := strings.CutPrefix(line, `openclaw_loop_lateness_seconds_bucket{le="`)
			if !ok || strings.HasPrefix(rest, "+Inf") {
				continue
			}
			edge, value, _ := strings.Cut(strings.TrimSpace(rest), `"} `)
			var le, n float64
			if err := json.Unmarshal([]byte("["+edge+","+value+"]"), &[]*float64{&le, &n}); err != nil {
				t.Fatal(err)
			}
			if want := float64(ns)/1e9 <= le; (n == 1) != want {
				t.Errorf("%d ns: bucket %s has %v", ns, edge, n)
			}
		}
	}
}

func scrape(t *testing.T, agent Agent) string {
	t.Helper()
	s, err := New(DefaultConfig(), agent, testInfo)
	if err != nil {
		t.Fatal(err)
	}
	s.port.Store(80)
	w := httptest.NewRecorder()
	req := httptest.NewRequest("GET", "/metrics", nil)
	req.Host = "127.0.0.1"
	s.engine.ServeHTTP(w, req)
	b, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", w.Code, b, err)
	}
	return string(b)
}

// fill sets every field of v from a stream of bytes, NaN and all.
func fill(v reflect.Value, next func() uint64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), next)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), next)
		}
	case reflect.Bool:
		v.SetBool(next()&1 != 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(next()))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(next())
	case reflect.Float32:
		v.SetFloat(float64(math.Float32frombits(uint32(next()))))
	case reflect.Float64:
		v.SetFloat(math.Float64frombits(next()))
	default:
		panic("state_test: a Snapshot has a " + v.Kind().String())
	}
}

// FuzzState: no snapshot keeps /api/v1/state or /metrics from answering.
func FuzzState(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 2, 3})
	f.Add([]byte("\xff\xff\xff\xff\x00\x00\xc0\x7f\x00\x00\x80\xff"))
	want := stateMembers()
	agent := &fakeAgent{}
	s, err := New(Config{
		Connections: 16, HeaderTimeout: 1, ReadTimeout: 1, WriteTimeout: 3, IdleTimeout: 1, CallTimeout: 1, ShutdownTimeout: 1, Log: quiet(),
	}, agent, testInfo)
	if err != nil {
		f.Fatal(err)
	}
	s.port.Store(80)
	f.Fuzz(func(t *testing.T, b []byte) {
		i := 0
		next := func() (x uint64) { // the bytes, mixed, over and over
			for range 8 {
				if len(b) > 0 {
					x = x<<8 | uint64(b[i%len(b)])
				}
				i++
			}
			return x ^ x<<(i%13)
		}
		fill(reflect.ValueOf(&agent.snap).Elem(), next)
		for _, path := range []string{"/api/v1/state", "/metrics", "/readyz"} {
			w := httptest.NewRecorder()
			req := httptest.NewRequest("GET", path, nil)
			req.Host = "localhost"
			s.engine.ServeHTTP(w, req)
			if w.Code != 200 && !(path == "/readyz" && w.Code == 503) {
				t.Fatalf("%s: %d %s", path, w.Code, w.Body)
			}
			if path == "/metrics" {
				continue
			}
			var got map[string]any
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatalf("%s: %v in %s", path, err, w.Body)
			}
			if d := cmp.Diff(want, keys(got)); path == "/api/v1/state" && d != "" {
				t.Fatalf("members (-want +got):\n%s", d)
			}
		}
	})
}

// BenchmarkState is the work of one GET /api/v1/state without the socket.
func BenchmarkState(b *testing.B) {
	s, err := New(DefaultConfig(), &fakeAgent{snap: walking()}, testInfo)
	if err != nil {
		b.Fatal(err)
	}
	s.port.Store(80)
	req := httptest.NewRequest("GET", "/api/v1/state", nil)
	req.Host = "127.0.0.1"
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		s.engine.ServeHTTP(w, req)
		b.SetBytes(int64(w.Body.Len()))
	}
}
