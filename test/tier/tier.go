// Package tier assigns tests to the commands that run them.
//
// "make test" proves every promise of the documents once, and takes minutes: it runs "go test -short". "make test-all"
// runs all tests. A test that only "make test-all" runs begins with [Deep]; docs/testing.md describes what belongs
// where. See docs/decisions/0167-tiers.md, which replaces docs/decisions/0162-race-detector.md.
package tier

import "testing"

// Left is the reason with which [Deep] skips a test. The report of "make test" counts these tests apart: they are not
// missing, another command runs them.
const Left = "left to make test-all"

// Deep leaves a test to "make test-all".
func Deep(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip(Left)
	}
}

// Rounds returns how many of all rounds a random walk takes: a sixth in "make test".
func Rounds(all int) int {
	if testing.Short() {
		return max(1, all/6)
	}
	return all
}
