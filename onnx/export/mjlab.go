package export

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
)

// mjlabMetadata gives the metadata that mjlab writes into its policies
// (src/mjlab/rl/exporter_utils.py there), which other tools read and some of them
// refuse to do without: lists of names and numbers between commas, lists in lists
// between semicolons. mjlab rounds to 3 decimals; here every number keeps all of
// its digits. What these keys cannot say stands in the contract alone: the clip of
// actions, periods, the gait clock.
func mjlabMetadata(c *contract.Contract) ([]contract.Metadata, error) {
	run := "local" // mjlab's word for a run of no service
	if c.Training != nil && c.Training.Run != "" {
		run = c.Training.Run
	}
	var terms []string
	policy := c.Group("policy")
	for _, t := range policy.Terms {
		terms = append(terms, t.Name)
	}
	for _, names := range [][]string{c.Joints, terms} {
		for _, name := range names {
			if strings.ContainsAny(name, ",;") {
				return nil, fmt.Errorf("export: %q: mjlab's metadata lists names between commas, so that a name can hold none", name)
			}
		}
	}
	m := []contract.Metadata{
		{Key: "run_path", Value: run},
		{Key: "joint_names", Value: strings.Join(c.Joints, ",")},
		{Key: "joint_stiffness", Value: decimals(c.Kp)},
		{Key: "joint_damping", Value: decimals(c.Kd)},
		{Key: "default_joint_pos", Value: decimals(c.Home)},
		{Key: "command_names", Value: "twist"}, // of mjlab's velocity tasks: vx, vy, yaw rate
		{Key: "observation_names", Value: strings.Join(terms, ",")},
	}
	if mjlabAssembles(policy) {
		m = append(m, mjlabTerms(policy)...)
	}
	return append(m, contract.Metadata{Key: "action_scale", Value: decimals(c.Action.Scale)}), nil
}

// mjlabAssembles says whether mjlab's keys can say how the observation is put
// together: its history is oldest first, term after term. For another one the keys
// of the terms are left out, because who reads them would build something else.
func mjlabAssembles(g *rollout.Group) bool {
	for i := range g.Terms {
		t := &g.Terms[i]
		if t.History > 1 && (g.Layout != rollout.ByTerm && len(g.Terms) > 1 || t.Order == rollout.NewestFirst) {
			return false
		}
	}
	return true
}

// mjlabTerms describes each term's scale, history and clip.
func mjlabTerms(g *rollout.Group) []contract.Metadata {
	var scale, flatten, history, clip []string
	for i := range g.Terms {
		t := &g.Terms[i]
		frames := t.History
		if frames == 1 {
			frames = 0 // mjlab's "no history"
		}
		low, high := "-inf", "inf"
		if t.Clip != nil {
			// mjlab clips before it scales, a Spec after.
			a, b := t.Clip[0]/t.Scale, t.Clip[1]/t.Scale
			low, high = decimal(min(a, b)), decimal(max(a, b))
		}
		scale = append(scale, decimal(t.Scale))
		flatten = append(flatten, "1")
		history = append(history, strconv.Itoa(frames))
		clip = append(clip, low+";"+high)
	}
	return []contract.Metadata{
		{Key: "observation_terms_scale", Value: strings.Join(scale, ",")},
		{Key: "observation_terms_flatten_history_dim", Value: strings.Join(flatten, ",")},
		{Key: "observation_terms_history_length", Value: strings.Join(history, ",")},
		{Key: "observation_terms_clip", Value: strings.Join(clip, ",")},
	}
}

// decimal writes a number with a decimal point wherever it has one, as short as
// gives the same float32 back.
func decimal(x float32) string { return strconv.FormatFloat(float64(x), 'f', -1, 32) }

func decimals(v []float32) string {
	s := make([]string, len(v))
	for i, x := range v {
		s[i] = decimal(x)
	}
	return strings.Join(s, ",")
}
