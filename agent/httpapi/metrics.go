package httpapi

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/guard"
	"github.com/openclaw-rl/openclaw/agent/latency"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

// maxScrapes at once; further ones get 503.
const maxScrapes = 4

// metrics makes the handler of /metrics with a registry of its own, so that two
// servers in one process do not meet.
func (s *Server) metrics() (gin.HandlerFunc, error) {
	r := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		&collector{agent: s.agent, info: &s.info},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return gin.WrapH(promhttp.HandlerFor(r, promhttp.HandlerOpts{
		EnableOpenMetrics:   true,
		DisableCompression:  true, // it costs the robot's CPU; loopback is fast
		MaxRequestsInFlight: maxScrapes,
		ErrorLog:            slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelWarn),
	})), nil
}

// collector reads one Snapshot a scrape.
type collector struct {
	agent Agent
	info  *Info
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("openclaw_"+name, help, labels, nil)
}

var (
	buildDesc = desc("agent_build_info", "The program, the robot and the policy.", "version", "commit", "robot", "policy", "policy_sha256", "contract_source")

	latenessDesc   = desc("loop_lateness_seconds", "Wake-up of the control loop after its deadline.")
	jitterDesc     = desc("loop_jitter_seconds", "Difference of the time between two ticks from 2 ms.")
	rxToTxDesc     = desc("loop_rx_to_tx_seconds", "Newest state taken from the socket to frame handed to it.")
	policyStepDesc = desc("policy_step_seconds", "Observation handed out to target ready: the policy's own time.")
	latenessMax    = desc("loop_lateness_max_seconds", "Largest lateness since start.")
	ticksDesc      = desc("loop_ticks_total", "Ticks of the control loop.")
	missedDesc     = desc("loop_deadline_misses_total", "Deadlines that passed while the loop was not there.")
	lateTicksDesc  = desc("loop_late_ticks_total", "Ticks that began more than 1 ms after their deadline.")
	tripsDesc      = desc("loop_trips_total", "Times that the loop damped for its own lateness.")
	sentDesc       = desc("frames_sent_total", "Frames handed to the link.")
	sendErrorsDesc = desc("frame_send_errors_total", "Frames that the link did not take.")
	statesDesc     = desc("states_total", "States accepted from the robot.")
	linkDesc       = desc("link_datagrams_total", "Datagrams by what became of them.", "what")
	limitedDesc    = desc("limited_total", "Outgoing values limited by the judge.", "how")
	stepsDesc      = desc("policy_steps_total", "Policy steps.")
	lateStepsDesc  = desc("policy_steps_late_total", "Policy steps that missed their period.")

	guardAliveDesc    = desc("guard_alive", "1 while the guard's beat is fresh.")
	guardPIDDesc      = desc("guard_pid", "Process of the guard; 0 without one.")
	guardTripsDesc    = desc("guard_trips_total", "Times that the guard took the motors' torque away.")
	guardFramesDesc   = desc("guard_frames_total", "Damping frames that the guard sent.")
	guardKillErrsDesc = desc("guard_kill_errors_total", "Agents that stood still with a torque frame on its way and that the guard could not kill.")
	guardLatchedDesc  = desc("guard_latched", "1 while the guard lets no torque leave.")
	guardSendingDesc  = desc("guard_sending", "1 while the guard damps in the loop's place.")
	guardLatenessDesc = desc("guard_lateness_seconds", "Wake-up of the guard's loop after its deadline: how long the machine stands still.")

	modeDesc     = desc("mode", "1 for the present mode.", "mode")
	armedDesc    = desc("armed", "1 while frames are sent.")
	faultDesc    = desc("fault_active", "1 for the latched fault; see FAULTS.md.", "number", "fault")
	severityDesc = desc("fault_severity", "Severity of the latched fault: 0 none to 6 cut.")
	warningDesc  = desc("warning_active", "1 while a fault is worth a warning.", "number", "fault")
	ageDesc      = desc("state_age_seconds", "Age of the newest state.")
	endToEndDesc = desc("end_to_end_age_seconds", "Age of the state that the present target answers.")
	tempDesc     = desc("joint_temperature_celsius", "Temperature of a motor.", "joint")
	batteryDesc  = desc("battery_charge_ratio", "State of charge, 0 to 1.")
	currentDesc  = desc("battery_current_amperes", "Current of the battery as the robot reports it.")
	tiltDesc     = desc("tilt_radians", "Tilt of the body.")
	speedDesc    = desc("estimated_velocity_meters_per_second", "Estimated velocity of the body.", "axis")
	commandDesc  = desc("commanded_velocity_meters_per_second", "Velocity command as followed.", "axis")
	yawDesc      = desc("commanded_yaw_rate_radians_per_second", "Yaw rate command as followed.")
	remoteDesc   = desc("remote_present", "1 while the hand remote is heard.")
)

// Describe sends every description.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		buildDesc, latenessDesc, jitterDesc, lateTicksDesc, rxToTxDesc, policyStepDesc, latenessMax, ticksDesc, missedDesc, tripsDesc, sentDesc,
		sendErrorsDesc, statesDesc, linkDesc, limitedDesc, stepsDesc, lateStepsDesc, modeDesc, armedDesc, faultDesc,
		severityDesc, warningDesc, ageDesc, endToEndDesc, tempDesc, batteryDesc, currentDesc, tiltDesc, speedDesc,
		commandDesc, yawDesc, remoteDesc,
		guardAliveDesc, guardPIDDesc, guardTripsDesc, guardFramesDesc, guardKillErrsDesc, guardLatchedDesc, guardSendingDesc, guardLatenessDesc,
	} {
		ch <- d
	}
}

// Collect shows one snapshot. The registry calls it in a goroutine of its own, where a panic would end the program: it ends the scrape.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	defer func() {
		if p := recover(); p != nil {
			ch <- prometheus.NewInvalidMetric(buildDesc, fmt.Errorf("httpapi: panic in a scrape: %v", p))
		}
	}()
	var s control.Snapshot
	c.agent.Snapshot(&s)
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, clean(labels)...)
	}
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), clean(labels)...)
	}
	i := c.info
	gauge(buildDesc, 1, i.Version, i.Commit, i.Robot, i.PolicyName, i.PolicySHA256, i.ContractSource)
	ch <- histogram(latenessDesc, &s.Stats.Lateness)
	ch <- histogram(jitterDesc, &s.Stats.Jitter)
	ch <- histogram(rxToTxDesc, &s.Stats.RxToTx)
	ch <- histogram(policyStepDesc, &s.Stats.PolicyStep)
	gauge(latenessMax, float64(s.Stats.Lateness.MaxNs)/1e9)
	count(ticksDesc, s.Stats.Ticks)
	count(missedDesc, s.Stats.Missed)
	count(lateTicksDesc, s.Stats.Late)
	count(tripsDesc, s.Stats.Trips)
	count(sentDesc, s.Stats.Sent)
	count(sendErrorsDesc, s.Stats.SendErrors)
	count(statesDesc, s.Stats.States)
	for what, n := range i.linkCounters() {
		count(linkDesc, n, what)
	}
	count(limitedDesc, s.Limited.Clamped, "clamped")
	count(limitedDesc, s.Limited.Capped, "capped")
	count(limitedDesc, s.Limited.Refused, "refused")
	count(stepsDesc, s.Stats.Policy)
	count(lateStepsDesc, s.Stats.LatePolicy)

	var watch guard.Status
	if i.Guard != nil {
		i.Guard(&watch)
	}
	gauge(guardAliveDesc, one(s.GuardAlive))
	gauge(guardPIDDesc, float64(watch.PID))
	count(guardTripsDesc, watch.Trips)
	count(guardFramesDesc, watch.Frames)
	count(guardKillErrsDesc, watch.KillErrors)
	gauge(guardLatchedDesc, one(watch.Latched))
	gauge(guardSendingDesc, one(watch.Sending))
	ch <- histogram(guardLatenessDesc, &watch.Lateness)

	for m := control.Idle; m <= control.EStop; m++ {
		gauge(modeDesc, one(s.Mode == m), m.String())
	}
	gauge(armedDesc, one(s.Mode != control.Idle))
	gauge(severityDesc, float64(s.Verdict.Severity))
	for _, f := range safety.Faults[1:] {
		number := strconv.Itoa(int(f.Fault))
		gauge(faultDesc, one(s.Verdict.Fault == f.Fault), number, f.Name)
		gauge(warningDesc, one(s.Verdict.Warnings&(1<<f.Fault) != 0), number, f.Name)
	}
	gauge(remoteDesc, one(s.RemotePresent))
	for axis, name := range []string{"vx", "vy", "vz"} {
		gauge(speedDesc, float64(s.Velocity[axis]), name)
	}
	gauge(commandDesc, float64(s.Command[0]), "vx")
	gauge(commandDesc, float64(s.Command[1]), "vy")
	gauge(yawDesc, float64(s.Command[2]))
	if !s.HaveState {
		return // a 0 would be taken for a measurement
	}
	gauge(ageDesc, float64(s.StateAgeNs)/1e9)
	gauge(endToEndDesc, float64(s.EndToEndNs)/1e9)
	gauge(tiltDesc, s.TiltRad)
	for j, name := range go1.JointNames {
		gauge(tempDesc, float64(s.State.Motor[j].Temperature), name)
	}
	gauge(batteryDesc, float64(s.State.BMS.SOC)/100)
	gauge(currentDesc, float64(s.State.BMS.Current)/1e3)
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// clean makes labels that come from outside fit for the format.
func clean(labels []string) []string {
	for i, l := range labels {
		labels[i] = strings.ToValidUTF8(l, "�")
	}
	return labels
}

// Octaves of the loop's histogram that are shown, 1 us to 67 ms; the finer
// eighths would be 240 lines a histogram.
const firstOctave, lastOctave = 4, 20

func histogram(d *prometheus.Desc, h *latency.Histogram) prometheus.Metric {
	buckets := make(map[float64]uint64, lastOctave-firstOctave+1)
	below, next := uint64(0), 0
	for octave := firstOctave; octave <= lastOctave; octave++ {
		edge := octave * 8 // the bucket that ends the octave
		for ; next <= edge; next++ {
			below += h.Bucket[next]
		}
		buckets[float64(latency.UpperNs(edge))/1e9] = below
	}
	return prometheus.MustNewConstHistogram(d, h.Count, float64(h.SumNs)/1e9, buckets)
}
