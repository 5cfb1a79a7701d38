//go:build torch

package nets

// Parameters is everything that training moves, by name, outputs before inputs: actor.0.weight
// (outputs x inputs of the first layer), actor.0.bias, ..., log_std, critic.0.weight, .... It is
// the networks' own memory: what is written there is what they compute with from then on.
func (n *Nets) Parameters() map[string][]float32 {
	all := make(map[string][]float32, len(n.params))
	for _, p := range n.params {
		all[p.name] = p.value
	}
	return all
}
