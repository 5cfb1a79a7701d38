// Package known holds contracts of well-known policy files that say nothing about
// themselves, one file <sha256>.json for each, in the JSON of onnx/contract:
//
//	sha256 of policy.onnx ─▶ Lookup ─▶ contract JSON
//
// Only facts are kept here: the policy files stay with those who made them. To
// teach it another file, add the JSON; onnx/contract's tests decode every one.
package known

import "embed"

//go:embed *.json
var files embed.FS

// Lookup gives the contract of the policy file with this sha256 (hex, lower
// case). The bytes are the caller's.
func Lookup(sha256 string) ([]byte, bool) {
	if len(sha256) != 64 {
		return nil, false
	}
	text, err := files.ReadFile(sha256 + ".json")
	return text, err == nil
}

// Hashes lists the policy files that are known, sorted.
func Hashes() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic("known: the embedded folder cannot be listed: " + err.Error())
	}
	hashes := make([]string, len(entries))
	for i, e := range entries {
		hashes[i] = e.Name()[:len(e.Name())-len(".json")]
	}
	return hashes
}
