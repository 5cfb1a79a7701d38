// Command build makes the page's dist out of its src; `make web` runs it in the repository's root after npm has fetched the packages
// of package-lock.json and tsc has checked the types. The bundler is esbuild, a Go program of .ci/tools.mod.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/openclaw-rl/openclaw/sim/cmd/clawsim/web"
)

func main() {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}

func build() error {
	dist := filepath.Join(web.Folder, "dist")
	for _, old := range []string{"*.js", "*.css", "*.html", "*.txt", "*.json"} {
		files, err := filepath.Glob(filepath.Join(dist, old))
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := os.Remove(f); err != nil {
				return err
			}
		}
	}
	src := filepath.Join(web.Folder, "src")
	bundle := exec.Command("go", "tool", "-modfile=.ci/tools.mod", "esbuild", "app="+filepath.Join(src, "main.ts"), filepath.Join(src, "app.css"),
		"--bundle", "--splitting", "--format=esm", "--target=es2022", "--minify", "--legal-comments=eof", "--charset=utf8",
		"--entry-names=[name]", "--chunk-names=[name]", "--outdir="+dist, "--log-level=warning")
	bundle.Stdout, bundle.Stderr = os.Stdout, os.Stderr
	if err := bundle.Run(); err != nil {
		return fmt.Errorf("esbuild: %w", err)
	}
	page, err := os.ReadFile(filepath.Join(src, "index.html"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dist, "index.html"), page, 0o644)
	}
	if err == nil {
		err = licences(dist)
	}
	if err != nil {
		return err
	}
	return manifest(dist)
}

// licences writes the licence texts of the packages that are in the bundle.
func licences(dist string) error {
	var b strings.Builder
	b.WriteString("The page of clawsim play contains these packages of the npm registry, minified; their sources are there under name and version.\n")
	for _, name := range []string{"three", "mediabunny"} {
		folder := filepath.Join(web.Folder, "node_modules", name)
		var about struct{ Version, License, Homepage string }
		text, err := os.ReadFile(filepath.Join(folder, "package.json"))
		if err == nil {
			err = json.Unmarshal(text, &about)
		}
		if err == nil {
			text, err = os.ReadFile(filepath.Join(folder, "LICENSE"))
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "\n\n==== %s %s, %s, %s\n\n%s\n", name, about.Version, about.License, about.Homepage, strings.TrimSpace(string(text)))
	}
	return os.WriteFile(filepath.Join(dist, "LICENSES.txt"), []byte(b.String()), 0o644)
}

// manifest writes what dist was made of and what is in it.
func manifest(dist string) error {
	m := web.Manifest{Files: map[string]string{}}
	var err error
	if m.Sources, err = web.SourceHash(os.DirFS(web.Folder)); err != nil {
		return err
	}
	entries, err := os.ReadDir(dist)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if m.Files[e.Name()], err = web.Hash(os.DirFS(web.Folder), path.Join("dist", e.Name())); err != nil {
			return err
		}
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dist, "manifest.json"), append(b, '\n'), 0o644)
}
