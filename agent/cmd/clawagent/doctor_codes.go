package main

import (
	"fmt"
	"io"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/firstcontact"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

// codeInfo is one thing that doctor can name. Codes do not change.
type codeInfo struct {
	Code   string `json:"code"`
	By     string `json:"by"` // host, link, state, first-contact, hang-test: what has to be looked at to name it
	Title  string `json:"title"`
	Remedy string `json:"remedy"`                // "" where nothing is wrong, or where it depends on what was seen
	Hung   string `json:"remedy_hung,omitempty"` // of the first contact and the hang test, where that is another
}

// kindsOfCodes are the values of By, with what is above them in DOCTOR.md.
var kindsOfCodes = []struct{ by, title string }{
	{"host", "This computer, and the programs on it"}, {"link", "The way to the robot, and what comes back"}, {"state", "What its states say"},
	{"first-contact", "The first contact: hung, damping frames only"}, {"hang-test", "The hang test: hung, Kp 5"},
}

// ownCodes are those that no other table has.
var ownCodes = []struct{ code, by, title, remedy string }{
	{"realtime", "host", "What the 500 Hz loop wants of this computer: real-time priority and locked memory", "As root: `setcap cap_sys_nice,cap_ipc_lock=ep` on this program, or LimitRTPRIO and LimitMEMLOCK in its service."},
	{"clock", "host", "This computer's clocks are well", ""},
	{"clock_unsynchronised", "host", "This computer's time of day is not synchronised", "Let it get the time (systemd-timesyncd, chrony, ntpd). Nothing that keeps the robot running needs it; dates of results and recordings do."},
	{"clock_steps", "host", "This computer's time of day is being stepped", "Let one program set the time, and slew it. The loop counts on CLOCK_MONOTONIC and is not harmed; dates of recordings are."},
	{"clock_monotonic", "host", "CLOCK_MONOTONIC does not count right", "Choose another clock source (/sys/devices/system/clocksource/clocksource0/available_clocksource): the loop cannot keep 500 Hz by this one."},
	{"disk", "host", "There is room where journal and results go", ""},
	{"disk_low", "host", "There is little room where journal or results go", "Make room, or choose another folder (log, first_contact.dir)."},
	{"disk_unwritable", "host", "Journal or results cannot be written", "Choose a folder that may be written (log, first_contact.dir)."},
	{"another_agent", "host", "Another agent or doctor drives the robot, or nobody can tell", "Ask that agent (GET /api/v1/state), or stop it first."},
	{"guard", "host", "A guard that damps the robot does not let go of it", "Look at `clawagent guard --status`, or end that process."},
	{"local_address", "host", "The address to send from cannot be had", "Choose a free one with --local, or leave it out."},

	{"sport_mode", "link", "Sport mode is on", link.LowLevelHelp},
	{"sport_mode_off", "link", "Sport mode is off", ""},
	{"sport_mode_unknown", "link", "Nobody knows whether sport mode is off", "Check cable and address. If the robot lies or hangs and its sport mode is off, say so with --arm (for a first contact, --hung). " + link.LowLevelHelp},
	{"high_level_unclear", "link", "What answers is no Go1's high-level service", "Give the address of the high-level service with --high, 192.168.123.161:8082 on a Go1."},
	{"route", "link", "The way to the robot is short", ""},
	{"route_wireless", "link", "The way to the robot leads over a radio", "Use a cable: a radio link stalls for longer than a walking robot stands."},
	{"route_slow", "link", "The way to the robot is slow", "Use a cable, without a router between; look for what loads the network."},
	{"route_lossy", "link", "Frames or states get lost on the way", "Look at plugs and cable, and for what loads the network."},
	{"another_sender", "link", "Frames of another program reach the robot", "Stop that program: look on this computer (`ss -upn`) and on the robot's own for what sends to port 8007."},

	{"states", "state", "States came", ""},
	{"states_stopped", "state", "States came, and stopped", "Check cable and power; the robot's log if it is a virtual one."},
	{"state_stale", "state", "No fresh state from the robot", "Look at plugs, cable and route, and for what loads this computer and the network."},

	{"robot_restarted", "state", "The robot started anew while it was looked at", "Look at the battery and at what made it restart. In a first contact, what was measured before is forgotten; repeat."},

	{"first_contact", "first-contact", "The first contact, before which the robot does not stand", ""},
	{"first_contact_file", "first-contact", "The result of the first contact cannot be read or kept", "Look at the folder first_contact.dir: its rights, and the room on its disk. `clawagent doctor --first-contact --hung --anew` begins without what was kept."},
	{"crc_form", "first-contact", "The motors want the other form of the CRC", ""},

	{"link_loss_unknown", "hang-test", "What the motors do without commands is not known", "With the robot hung, and a person beside it, run `clawagent doctor --hang-test --hung`."},
	{"not_hung", "hang-test", "The legs do not hang free and still as in the first contact, or the body is not level", "Hang it level with its feet free, put each leg where it hung then, let go, and run this again."},
	{"hang_aborted", "hang-test", "The hang test was broken off, and the robot damped", "Look at the cause that is told; let it hang still, and run this again."},
}

// fromFaults are the judge's names that doctor uses for what it sees, and fromHints those of the link.
var fromFaults = []safety.Fault{
	safety.StateStale, safety.TickStuck, safety.StateNotFinite, safety.QuaternionBad, safety.Tilt, safety.MotorHot, safety.MotorOverheatMode,
	safety.MotorTempUnknown, safety.MotorModeDropped, safety.BatteryLow, safety.BatteryUnknown, safety.RemoteAbsent, safety.RemoteStop,
}

// hintTitles are the meanings of the link's hints; what to do depends on what was seen.
var hintTitles = map[string]string{
	"unreachable":     "The robot's address cannot be reached",
	"nothing_listens": "The machine is there, and nothing listens at the port",
	"no_answer":       "Commands leave, and nothing at all comes back",
	"send_errors":     "This computer's network refuses to send",
	"wrong_length":    "What comes has another length than a Go1's state",
	"empty_datagrams": "Datagrams of no bytes come: another program's",
	"zeros":           "Only zeros come: the main board has no data",
	"bad_head":        "What comes does not begin as a state does",
	"level_flag":      "States come from another level than the low one",
	"bad_crc":         "States come damaged",
	"wrong_port":      "The robot's machine answers from another port",
	"foreign_sender":  "Somebody else sends to us",
	"overflow":        "This computer's receive queue was full",
	"not_lowstate":    "Nothing that came was a state",
}

// codes is the whole table, each once.
func codes() (all []codeInfo) {
	at := map[string]int{}
	add := func(c codeInfo) {
		if _, seen := at[c.Code]; !seen {
			at[c.Code] = len(all)
			all = append(all, c)
		}
	}
	for _, c := range ownCodes {
		add(codeInfo{Code: c.code, By: c.by, Title: c.title, Remedy: c.remedy})
	}
	for _, h := range link.HintCodes {
		if title, ok := hintTitles[h]; ok { // of nothing_sent there is none: doctor sends
			add(codeInfo{Code: h, By: "link", Title: title})
		}
	}
	for _, f := range fromFaults {
		info := &safety.Faults[f]
		add(codeInfo{Code: info.Name, By: "state", Title: info.Title, Remedy: info.Remedy})
	}
	for _, c := range []firstcontact.Code{firstcontact.FootForceZero, firstcontact.JointRange} {
		info := &firstcontact.Codes[c]
		add(codeInfo{Code: info.Name, By: "state", Title: info.Title, Remedy: info.Remedy})
	}
	for i := range firstcontact.Codes {
		info := &firstcontact.Codes[i]
		by := "first-contact"
		if firstcontact.Code(i) >= firstcontact.LossHold {
			by = "hang-test"
		}
		add(codeInfo{Code: info.Name, By: by, Title: info.Title, Remedy: info.Remedy})
		if c := &all[at[info.Name]]; c.Remedy != info.Remedy {
			c.Hung = info.Remedy
		}
	}
	return all
}

// remedyOf is the table's remedy for a code.
func remedyOf(code string) string {
	for _, c := range codes() {
		if c.Code == code {
			return c.Remedy
		}
	}
	return ""
}

// printCodes is doctor --codes.
func printCodes(w io.Writer, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(w, map[string]any{"codes": codes()})
	}
	for i, kind := range kindsOfCodes {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s (%s)\n", kind.title, kind.by)
		for _, c := range codes() {
			if c.By != kind.by {
				continue
			}
			fmt.Fprintf(w, "  %-21s %s\n", c.Code, c.Title)
			if c.Remedy != "" {
				fmt.Fprintf(w, "  %-21s -> %s\n", "", c.Remedy)
			}
			if c.Hung != "" {
				fmt.Fprintf(w, "  %-21s -> hung: %s\n", "", c.Hung)
			}
		}
	}
	return nil
}
