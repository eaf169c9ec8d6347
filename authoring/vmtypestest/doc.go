// Package vmtypestest runs the tests of VM types. A VM type is a function, so its tests check the plan that it returns.
// The tests start no VM. There are two kinds of tests: assertions and samples.
//
// # Assertions
//
// A file NAME_test.star next to the type contains functions with names that begin with test_. They document why the
// type works as it does:
//
//	load("@vmtypes//testing.star", "assert", "plan_of")
//	load("gaming.star", "launch")
//
//	def test_the_sound_card_is_gone():
//	    plan = plan_of(launch, name = "vm", display = {"spice": {}})
//	    assert.eq(plan.option("-device", id = "sound0"), None)
//
// Only tests can load the module @vmtypes//testing.star:
//
//   - plan_of(launch, host = {}, **vm) returns the plan for a vm section. The strict reader of the
//     configuration file reads the section, with its defaults. host describes the computer, with
//     the fields of [sample.HostFacts].
//   - draw(launch, number, seed = 1, **vm) returns dicts with arguments of plan_of for drawn VMs (package draw) that
//     the type accepts.
//   - A plan has the fields argv, text, machine, helpers, files, taps, listeners, sockets and
//     rules, and the functions options(flag) and option(flag, id = None). Their results have the
//     fields flag, value, props and text.
//   - assert.eq, ne, true, contains, not_contains and matches record a failure and continue, so
//     that a test reports all failures. assert.fails(function, pattern) calls a function that must
//     fail with an error that matches the regular expression. Each accepts message, to distinguish
//     the cases of a table.
//   - The output of print is a part of a test's result.
//
// [TestFile] runs the tests of one file, [Folder.Run] the tests of a folder, and [Run] the tests of a folder for go
// test.
//
// # Samples
//
// A sample (package sample) is a VM that must have a plan. A golden also contains the plan, which must be the same.
// [Folder.Run] tests the samples of a folder, and [RunGoldens] does so for go test.
package vmtypestest
