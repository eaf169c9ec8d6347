// Package vmtypestest runs the tests of VM types.
//
// There are two kinds, and neither starts anything: a VM type is a function,
// so its tests are about the plan that it returns.
//
// # Assertions
//
// A file NAME_test.star beside the type has functions whose names begin with
// test_; they say why something is as it is:
//
//	load("@vmtypes//testing.star", "assert", "plan_of")
//	load("gaming.star", "launch")
//
//	def test_the_sound_card_is_gone():
//	    plan = plan_of(launch, name = "vm", display = {"spice": {}})
//	    assert.eq(plan.option("-device", id = "sound0"), None)
//
// The module @vmtypes//testing.star exists in tests only:
//
//   - plan_of(launch, host = {}, **vm) is the plan for a vm section, read by
//     the strict reader of the configuration file, with its defaults. host
//     says what is known of the computer, in the words of [sample.HostFacts].
//   - A plan has the fields argv, text, machine, helpers, files, taps,
//     listeners, sockets and rules, and the functions options(flag) and
//     option(flag, id = None), whose results have flag, value, props and text.
//   - assert.eq, ne, true and contains note a failure and go on, so that a test
//     tells all that is wrong; assert.fails(function, pattern) calls a function
//     that must fail with a message that the regular expression matches.
//
// [Run] does it for go test, [Test] for anyone else.
//
// # Goldens
//
// A golden is a sample whose plan is kept (package sample). [RunGoldens] compares
// it with the plan as the type makes it now.
package vmtypestest
