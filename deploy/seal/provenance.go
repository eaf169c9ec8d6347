package main

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"runtime"
	"slices"
	"strings"
)

// build is how a release was built.
type build struct {
	version, registry, url string
	root, commit, source   string
	builder                string
	epoch                  int64       // SOURCE_DATE_EPOCH, in seconds
	locks                  []file      // the files that pin Go modules
	packageKey             *packageKey // nil: the packages are not signed
}

// The kinds of documents, see https://slsa.dev/spec/v1.0/provenance.
const (
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://slsa.dev/provenance/v1"
	buildType     = "urn:vmop:make-release:v1" // "make release", described in docs/tasks/release.md
	someBuilder   = "urn:vmop:unnamed-builder"
)

// statement is a statement of in-toto with SLSA's provenance.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

type predicate struct {
	BuildDefinition definition `json:"buildDefinition"`
	RunDetails      details    `json:"runDetails"`
}

type definition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]string `json:"externalParameters"`
	InternalParameters   map[string]string `json:"internalParameters"`
	ResolvedDependencies []resource        `json:"resolvedDependencies"`
}

type details struct {
	Builder struct {
		ID      string            `json:"id"`
		Version map[string]string `json:"version"`
	} `json:"builder"`
}

// provenanceOf returns the provenance of a release: its files and images, and what they were built from. Its only time
// is that of the commit: the same commit and the same packages of Debian make the same statement.
func (b build) provenanceOf(files []file, images []image, lists []list) (s statement, err error) {
	s = statement{Type: statementType, PredicateType: predicateType}
	for _, f := range files {
		s.Subject = append(s.Subject, resource{Name: f.name, Digest: sha256Digest(f.sha256)})
	}
	for _, i := range images {
		s.Subject = append(s.Subject, resource{
			Name:   b.imageReference(i) + b.imageTag(i),
			Digest: sha256Digest(i.digest),
		})
	}
	d := &s.Predicate.BuildDefinition
	d.BuildType = buildType
	d.ExternalParameters = map[string]string{"VERSION": b.version, "REGISTRY": b.registry, "URL": b.url}
	d.InternalParameters = map[string]string{"SOURCE_DATE_EPOCH": fmt.Sprint(b.epoch)}
	d.ResolvedDependencies, err = b.buildDependencies(lists)
	s.Predicate.RunDetails.Builder.ID = b.builder
	if b.builder == "" {
		s.Predicate.RunDetails.Builder.ID = someBuilder
	}
	s.Predicate.RunDetails.Builder.Version = map[string]string{"go": runtime.Version()}
	return s, err
}

// buildDependencies returns what a release was built from: the commit, the checksums of Go's modules, Go, and Debian's
// packages in the images. A package without a checksum is an error.
func (b build) buildDependencies(lists []list) ([]resource, error) {
	all := []resource{{Name: "source", URI: b.source, Digest: map[string]string{"gitCommit": b.commit}}}
	for _, f := range b.locks {
		all = append(all, resource{Name: f.name, Digest: sha256Digest(f.sha256)})
	}
	all = append(all, resource{URI: "pkg:generic/go@" + strings.TrimPrefix(runtime.Version(), "go")})
	packages := map[string]string{}
	for _, l := range lists {
		for _, c := range l.Components {
			if strings.HasPrefix(c.PURL, "pkg:deb/") {
				packages[c.PURL] = c.sha256Sum()
			}
		}
	}
	for _, purl := range slices.Sorted(maps.Keys(packages)) {
		if packages[purl] == "" {
			return nil, fmt.Errorf("the list of components has no SHA-256 checksum of %s; build the images again", purl)
		}
		all = append(all, resource{URI: purl, Digest: sha256Digest(packages[purl])})
	}
	return all, nil
}

func sha256Digest(digits string) map[string]string { return map[string]string{"sha256": digits} }

// image is an image of the release, or the index of its architectures if architecture is empty. digest is its
// manifest's, in hexadecimal digits.
type image struct{ name, architecture, digest string }

// imagesOf returns the images among what the lists of components are about. Their package URLs are
// pkg:oci/NAME@sha256%3ADIGEST?arch=ARCHITECTURE.
func imagesOf(lists []list) []image {
	var images []image
	for _, l := range lists {
		u, err := url.Parse(l.Metadata.Component.PURL)
		if err != nil {
			continue
		}
		text, err := url.PathUnescape(u.Opaque)
		name, digest, isImage := strings.Cut(strings.TrimPrefix(text, "oci/"), "@sha256:")
		if err == nil && isImage && strings.HasPrefix(text, "oci/") {
			images = append(images, image{name, u.Query().Get("arch"), digest})
		}
	}
	return images
}

// imageTag returns the tag of an image that docs/tasks/release.md shows.
func (b build) imageTag(i image) string {
	return ":" + strings.TrimSuffix(b.version+"-"+i.architecture, "-")
}

// imageFile returns the name of an image's file in the release, without its suffix.
func (b build) imageFile(i image) string {
	return strings.TrimSuffix("vmop-"+i.name+"-"+b.version+"-"+i.architecture, "-")
}

// imageReference returns the repository of an image in the release's registry.
func (b build) imageReference(i image) string { return path.Join(b.registry, i.name) }
