// Package tier assigns tests to the commands that run them.
//
// "make test" tests every promise of the documents once, in minutes: it runs "go test -short". "make test-all" runs all
// tests. A test that only "make test-all" runs begins with [Deep]. docs/testing.md describes which tests belong where.
// See docs/decisions/0167-tiers.md, which replaces docs/decisions/0162-race-detector.md.
package tier

import "testing"

// Left is the reason with which [Deep] skips a test. The report of "make test" counts these tests separately, because
// another command runs them.
const Left = "left to make test-all"

// Deep skips the test unless "make test-all" runs it.
func Deep(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip(Left)
	}
}

// Rounds returns the number of rounds of a random walk: all, or a sixth in "make test".
func Rounds(all int) int {
	if testing.Short() {
		return max(1, all/6)
	}
	return all
}
