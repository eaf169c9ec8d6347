package objects

import (
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// everything is the pattern that matches all.
const everything = "*"

// An ImagePattern says which images are meant: a repository
// ("registry.example/vmop/runner") means its images of every tag and digest, a name
// with a tag or a digest that one, "registry.example/vmop/*" all repositories whose
// name begins so, "*" every image. Names are understood as kubelets do:
// "vmop/runner" is docker.io/vmop/runner.
type ImagePattern string

// Validate returns what is wrong with a pattern.
func (p ImagePattern) Validate() error {
	if p == everything {
		return nil
	}
	beginning, all := strings.CutSuffix(string(p), everything)
	if all && !strings.HasSuffix(beginning, "/") {
		return errors.New("want * alone, or at the end after a /")
	}
	if all {
		beginning += anyName
	}
	if _, err := reference.ParseNormalizedNamed(beginning); err != nil {
		return fmt.Errorf("%q is not the name of an image: %w", p, err)
	}
	return nil
}

// anyName is what a pattern is completed with to be the name of an image.
const anyName = "x"

// matches reports whether an image is meant.
func (p ImagePattern) matches(image string) bool {
	if p == everything {
		return true
	}
	is, err := reference.ParseNormalizedNamed(image)
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
	return reference.IsNameOnly(wanted) || reference.TagNameOnly(is).String() == wanted.String()
}

// isImageID reports whether a text can be the beginning of the id of an image that a
// node has, which kubelets take for a name, too.
func isImageID(image string) bool {
	algorithm, _, digest := strings.Cut(image, ":")
	if digest && strings.HasPrefix(algorithm, "sha") {
		return true
	}
	return strings.Trim(image, "0123456789abcdef") == ""
}

// repositoryOf is the pattern for all images of the repository of one.
func repositoryOf(image string) ImagePattern {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return ""
	}
	return ImagePattern(named.Name())
}
