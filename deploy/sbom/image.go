package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// The paths in an image from which the list is generated.
const (
	ourPrograms  = "usr/local/bin/"
	debianStatus = "var/lib/dpkg/status"
)

// debianRelease is the release in deploy/images/debian.sources.
const debianRelease = "bookworm"

// imageBOM returns the list of the components of an image in an archive.
func imageBOM(file, version string) (*cdx.BOM, error) {
	img, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		return nil, err
	}
	digest, err := manifestDigest(file)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(strings.TrimSuffix(path.Base(file), ".tar"), "-"+config.Architecture)
	purl := "pkg:oci/" + name + "@" + url.QueryEscape(digest.String()) + "?arch=" + config.Architecture
	of := newComponent(cdx.ComponentTypeContainer, "vmop/"+name, version, purl)
	contents := mutate.Extract(img)
	defer contents.Close()
	var own, parts []cdx.Component
	var inPrograms []cdx.Dependency
	seen := map[string]bool{}
	for files := tar.NewReader(contents); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		found := path.Clean(header.Name)
		isProgram := path.Dir(found)+"/" == ourPrograms && header.Typeflag == tar.TypeReg
		if !isProgram && found != debianStatus {
			continue
		}
		text, err := io.ReadAll(files)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", found, err)
		}
		if !isProgram {
			packages := debianComponents(string(text))
			own, parts = append(own, packages...), append(parts, packages...)
			continue
		}
		program, modules, err := modulesOf(path.Base(found), version, text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", found, err)
		}
		own, inPrograms = append(own, program), append(inPrograms, dependencyOf(program, modules))
		for _, c := range append(modules, program) {
			if !seen[c.BOMRef] {
				seen[c.BOMRef], parts = true, append(parts, c)
			}
		}
	}
	return newBOM(of, parts, append(inPrograms, dependencyOf(of, own))...), nil
}

// manifestDigest returns the digest of the image's manifest in index.json, by which registries identify it. Package
// tarball reads Docker's list instead, where the manifest has another digest.
func manifestDigest(file string) (digest v1.Hash, err error) {
	f, err := os.Open(file)
	if err != nil {
		return digest, err
	}
	defer f.Close()
	for files := tar.NewReader(f); ; {
		header, err := files.Next()
		if err != nil {
			return digest, fmt.Errorf("find index.json: %w", err)
		}
		if header.Name != "index.json" {
			continue
		}
		index, err := v1.ParseIndexManifest(files)
		if err != nil {
			return digest, err
		}
		if len(index.Manifests) != 1 {
			return digest, fmt.Errorf("index.json: has %d manifests, but must have 1", len(index.Manifests))
		}
		return index.Manifests[0].Digest, nil
	}
}

// debianComponents returns the packages of dpkg's status file, with the checksums that deploy/images has added.
func debianComponents(status string) (packages []cdx.Component) {
	for stanza := range strings.SplitSeq(status, "\n\n") {
		fields := map[string]string{}
		for line := range strings.Lines(stanza) {
			if key, value, found := strings.Cut(line, ": "); found && !strings.HasPrefix(key, " ") {
				fields[key] = strings.TrimSpace(value)
			}
		}
		if name := fields["Package"]; name != "" {
			purl := "pkg:deb/debian/" + url.QueryEscape(name) + "@" + url.QueryEscape(fields["Version"]) +
				"?arch=" + fields["Architecture"] + "&distro=" + debianRelease
			c := newComponent(cdx.ComponentTypeLibrary, name, fields["Version"], purl)
			if sum := fields["SHA256"]; sum != "" {
				c.Hashes = sha256Of(sum)
			}
			packages = append(packages, c)
		}
	}
	return packages
}
