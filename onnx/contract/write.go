package contract

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Embed gives a copy of an ONNX model whose metadata holds c in place of what
// contract it had. Every other field keeps its bytes and its order. The contract
// must match the graph.
func Embed(model []byte, c *Contract) ([]byte, error) {
	m, err := ParseModel(model)
	if err != nil {
		return nil, fmt.Errorf("contract: model: %w", err)
	}
	text, err := c.Encode()
	if err != nil {
		return nil, err
	}
	if err := c.Matches(m); err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(model)+len(text)+64)
	for rest := model; len(rest) > 0; {
		// ParseModel has seen every field, so no length is negative.
		n, t, tag := protowire.ConsumeTag(rest)
		size := tag + protowire.ConsumeFieldValue(n, t, rest[tag:])
		if !(n == 14 && t == protowire.BytesType && isContract(rest[tag:size])) {
			out = append(out, rest[:size]...)
		}
		rest = rest[size:]
	}
	entry := protowire.AppendTag(nil, 1, protowire.BytesType)
	entry = protowire.AppendString(entry, Key)
	entry = protowire.AppendTag(entry, 2, protowire.BytesType)
	entry = protowire.AppendBytes(entry, text)
	out = protowire.AppendTag(out, 14, protowire.BytesType)
	return protowire.AppendBytes(out, entry), nil
}

// isContract says whether a metadata_props field, its length included, is ours.
func isContract(value []byte) bool {
	b, _ := protowire.ConsumeBytes(value)
	key, _, err := (&parser{}).entry(field{kind: protowire.BytesType, b: b}, "metadata_props", MaxJSON)
	return err == nil && key == Key
}
