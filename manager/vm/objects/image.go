package objects

import (
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"

	"vmop/vmtypes/artifact/versions"
)

// everything is the pattern that matches all images.
const everything = "*"

// An ImagePattern matches images. Names are interpreted as kubelets do: "vmop/runner" is docker.io/vmop/runner.
//
//	registry.example/vmop/runner        images of this repository with any tag or digest
//	registry.example/vmop/runner:1.0    only this tag, or digest
//	registry.example/vmop/*             images of all repositories with this prefix
//	*                                   every image
type ImagePattern string

// Validate returns an error if the pattern is invalid.
func (p ImagePattern) Validate() error {
	if p == everything {
		return nil
	}
	beginning, all := strings.CutSuffix(string(p), everything)
	if all && !strings.HasSuffix(beginning, "/") {
		return errors.New("* must be alone, or at the end after a /")
	}
	if all {
		beginning += anyName
	}
	if _, err := reference.ParseNormalizedNamed(beginning); err != nil {
		return fmt.Errorf("%q is not the name of an image: %w", p, err)
	}
	return nil
}

// anyName completes a pattern to the name of an image.
const anyName = "x"

// matchesImage reports whether an image matches the pattern.
func (p ImagePattern) matchesImage(image string) bool {
	if p == everything {
		return true
	}
	repository, within := versions.Cut(image)
	is, err := reference.ParseNormalizedNamed(repository)
	if err != nil || isImageID(image) {
		return false
	}
	if beginning, all := strings.CutSuffix(string(p), everything); all {
		wanted, err := reference.ParseNormalizedNamed(beginning + anyName)
		return err == nil && strings.HasPrefix(is.Name(), strings.TrimSuffix(wanted.Name(), anyName))
	}
	wanted, err := reference.ParseNormalizedNamed(string(p))
	if err != nil || wanted.Name() != is.Name() {
		return false
	}
	if digested, only := wanted.(reference.Digested); only {
		has, given := is.(reference.Digested)
		return given && has.Digest() == digested.Digest()
	}
	return reference.IsNameOnly(wanted) || within == "" && reference.TagNameOnly(is).String() == wanted.String()
}

// isImageID reports whether a text can be the prefix of an image ID on a node, which kubelets also accept as a name.
func isImageID(image string) bool {
	algorithm, _, digest := strings.Cut(image, ":")
	if digest && strings.HasPrefix(algorithm, "sha") {
		return true
	}
	return strings.Trim(image, "0123456789abcdef") == ""
}

// repositoryOf returns the pattern for all images in the repository of an image.
func repositoryOf(image string) ImagePattern {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return ""
	}
	return ImagePattern(named.Name())
}
