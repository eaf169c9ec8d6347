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
//   - assert.eq, ne, true, contains, not_contains and matches note a failure and go
//     on, so that a test tells all that is wrong; assert.fails(function, pattern)
//     calls a function that must fail with a message that the regular expression
//     matches. Each takes message, to tell the cases of a table apart.
//   - What print says is part of a test's result.
//
// [TestFile] runs the tests of one file, [Folder.Run] those of a folder, [Run] does
// it for go test.
//
// # Samples
//
// A sample (package sample) is a VM that must have a plan; a golden keeps the plan,
// which must be the same. [TestSample] tries one, [Folder.Run] those of a folder,
// [RunGoldens] does it for go test.
package vmtypestest
