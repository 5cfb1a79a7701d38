// Package web holds the page of `clawsim play --view`: three.js draws the robots, the panel steers them, and the same page renders
// videos.
//
//	src/ (TypeScript) ── make web: npm, tsc, esbuild ─► dist/ ── embedded in clawsim
//
// dist is committed, so that building the Go program needs neither Node nor a network; its manifest.json says from which sources it
// was made, and the package's test that those are the ones beside it. Only sim/cmd/clawsim serves Dist.
package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
)

// Dist is the page, in its folder dist.
//
//go:embed dist
var Dist embed.FS

// Folder is where `make web` works, from the repository's root.
const Folder = "sim/cmd/clawsim/web"

// sources are what dist is made of: files and folders.
var sources = []string{"build", "package-lock.json", "package.json", "src", "tsconfig.json"}

// Manifest is dist/manifest.json.
type Manifest struct {
	Sources string            `json:"sources"` // Hash of what dist was made of
	Files   map[string]string `json:"files"`   // sha256 of each file of dist but this one
}

// SourceHash is the hash of the page's sources in dir, which is Folder.
func SourceHash(dir fs.FS) (string, error) { return Hash(dir, sources...) }

// Hash is the sha256, in hex, over names and contents of files and folders of dir.
func Hash(dir fs.FS, roots ...string) (string, error) {
	var files []string
	for _, root := range roots {
		err := fs.WalkDir(dir, root, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			return "", fmt.Errorf("web: %w", err)
		}
	}
	slices.Sort(files)
	sum := sha256.New()
	for _, name := range files {
		b, err := fs.ReadFile(dir, name)
		if err != nil {
			return "", fmt.Errorf("web: %w", err)
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(b))
		sum.Write(b)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
