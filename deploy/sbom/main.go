// Command sbom lists the components of our programs and images as CycloneDX JSON (https://cyclonedx.org), so that
// scanners can find known vulnerabilities in them:
//
//	go run ./deploy/sbom -version v1.0.0 -o build/sbom bin/vmrunner build/images/runner.tar
//
// It writes build/sbom/vmrunner.cdx.json and runner.cdx.json. The components of a program are the Go modules in its
// build information (debug/buildinfo). The components of an image are its programs and Debian's packages. The same file
// always produces the same list.
//
// See docs/decisions/0061-sbom.md.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := runSBOM(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func runSBOM(args []string) error {
	flags := flag.NewFlagSet("sbom", flag.ContinueOnError)
	version := flags.String("version", "devel", "of the programs and images")
	out := flags.String("o", "build/sbom", "`folder` to write to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return fmt.Errorf("folder for lists of components: %w", err)
	}
	for _, file := range flags.Args() {
		name, isImage := strings.CutSuffix(filepath.Base(file), ".tar")
		of := programBOM
		if isImage {
			of = imageBOM
		}
		list, err := of(file, *version)
		if err != nil {
			return fmt.Errorf("list the components of %s: %w", file, err)
		}
		if err := writeBOM(filepath.Join(*out, name+".cdx.json"), list); err != nil {
			return err
		}
	}
	return nil
}

func writeBOM(path string, list *cdx.BOM) error {
	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).Encode(list); err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

// newBOM returns a list with the direct and indirect components of a program or image.
func newBOM(of cdx.Component, parts []cdx.Component, uses ...cdx.Dependency) *cdx.BOM {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &of}
	bom.Components, bom.Dependencies = &parts, &uses
	return bom
}

// dependencyOf returns the direct components of a component.
func dependencyOf(of cdx.Component, parts []cdx.Component) cdx.Dependency {
	refs := []string{}
	for _, p := range parts {
		refs = append(refs, p.BOMRef)
	}
	return cdx.Dependency{Ref: of.BOMRef, Dependencies: &refs}
}

// programBOM returns the list of the components of a program in a file.
func programBOM(file, version string) (*cdx.BOM, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	of, modules, err := modulesOf(filepath.Base(file), version, text)
	if err != nil {
		return nil, err
	}
	return newBOM(of, modules, dependencyOf(of, modules)), nil
}

// modulesOf returns a program and its modules, the standard library first.
func modulesOf(name, version string, text []byte) (of cdx.Component, modules []cdx.Component, err error) {
	info, err := buildinfo.Read(bytes.NewReader(text))
	if err != nil {
		return of, nil, err
	}
	of = newComponent(cdx.ComponentTypeApplication, name, version, "pkg:golang/"+info.Path+"@"+url.QueryEscape(version))
	of.Hashes = sha256Of(fmt.Sprintf("%x", sha256.Sum256(text)))
	std := strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")
	modules = []cdx.Component{newComponent(cdx.ComponentTypeLibrary, "std", std, "pkg:golang/std@"+std)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := newComponent(cdx.ComponentTypeLibrary, m.Path, m.Version,
			"pkg:golang/"+m.Path+"@"+url.QueryEscape(m.Version))
		// The checksum in go.sum is the SHA-256 of a list of the module's files with their hashes.
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && m.Sum != "" {
			c.Hashes = sha256Of(hex.EncodeToString(sum))
		}
		modules = append(modules, c)
	}
	return of, modules, nil
}

func newComponent(kind cdx.ComponentType, name, version, purl string) cdx.Component {
	return cdx.Component{BOMRef: purl, Type: kind, Name: name, Version: version, PackageURL: purl}
}

func sha256Of(digits string) *[]cdx.Hash {
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: digits}}
}
