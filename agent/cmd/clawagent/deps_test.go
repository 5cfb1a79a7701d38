package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// banned is what may not be linked into clawagent, with what lies below it, and why.
var banned = map[string]string{
	module + "sim":                                        "physics on board runs in a process of its own, and nothing here may see a simulator's truth",
	module + "learner":                                    "training stays off the robot",
	module + "agent/link/linktest":                        "a fake robot is for tests",
	module + "agent/rollout/rollouttest":                  "the conformance suite is for tests",
	module + "onnx/contract/contracttest":                 "it builds models for tests",
	"github.com/sugarme/gotch":                            "libtorch is not shipped to the Jetson",
	"github.com/nats-io/nats-server":                      "a robot is a client of the fleet, never its server",
	"github.com/google/go-cmp":                            "it panics on what it cannot compare, and its own words keep it to tests",
	"pgregory.net/rapid":                                  "it makes inputs for tests",
	"testing":                                             "test helpers register flags and end the process",
	"net/http/pprof":                                      "it opens profiles to whoever reaches the default mux",
	"plugin":                                              "code that is not in the checked bundle would run beside the motors",
	"github.com/schollz/progressbar/v3":                   "a service's standard error is a journal, no terminal",
	"github.com/prometheus/client_golang/prometheus/push": "a robot is asked for its figures, it does not send them about",
}

// TestDeps lists the packages of clawagent as it is built for the two machines it runs on.
func TestDeps(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		cmd := exec.Command("go", "list", "-deps", ".")
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=1")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", arch, err, stderr.String())
		}
		deps := strings.Fields(string(out))
		for _, d := range deps {
			for path, why := range banned {
				if below(d, path) {
					t.Errorf("%s: %s is linked into clawagent: %s", arch, d, why)
				}
			}
		}
		for _, must := range []string{module + "agent/control", "github.com/yalue/onnxruntime_go"} {
			if !slices.Contains(deps, must) {
				t.Errorf("%s: %s is not among %d packages: this test looks at the wrong thing", arch, must, len(deps))
			}
		}
	}
}

// below says whether a package is path or lies under it.
func below(pkg, path string) bool { return pkg == path || strings.HasPrefix(pkg, path+"/") }
