// Package versions selects the tag of an image by a range of versions, such as registry.example.org/types/asset:^1.2.
//
// Ranges have the syntax of npm and Cargo, see github.com/Masterminds/semver. A range begins with one of the characters
// ^ ~ > < =, which no tag contains.
package versions

import (
	"errors"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Cut splits a reference into the repository and the range of versions that follows it. The range is "" if the
// reference has a tag, a digest, or neither.
func Cut(reference string) (repository, rng string) {
	slash := strings.LastIndex(reference, "/") + 1
	before, after, _ := strings.Cut(reference[slash:], ":")
	if after != "" && strings.ContainsRune("^~<>=", rune(after[0])) {
		return reference[:slash] + before, after
	}
	return reference, ""
}

// Check returns an error for an invalid range.
func Check(rng string) error {
	if _, err := semver.NewConstraint(rng); err != nil {
		return fmt.Errorf("%q is not a range of versions, such as ^1.2 or >=1.2,<2", rng)
	}
	return nil
}

// Newest returns the tag with the highest version in a range. It ignores tags that are not versions, and pre-releases
// unless the range names one.
func Newest(tags []string, rng string) (tag string, err error) {
	within, err := semver.NewConstraint(rng)
	if err != nil {
		return "", Check(rng)
	}
	var newest *semver.Version
	versions := 0
	for _, t := range tags {
		v, err := semver.NewVersion(t)
		if err != nil {
			continue
		}
		versions++
		if within.Check(v) && (newest == nil || v.GreaterThan(newest)) {
			newest, tag = v, t
		}
	}
	switch {
	case newest != nil:
		return tag, nil
	case versions == 0:
		return "", errors.New("no tag is a version, such as 1.2.0")
	}
	return "", fmt.Errorf("the range %s contains no tag; the repository has %d versions", rng, versions)
}
