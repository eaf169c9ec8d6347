// Package changes finds out what of a new configuration a running VM can't
// take over: the changes that await a restart.
//
// It is exact because a launch plan is a pure function of what is configured:
// whether a value matters is seen by changing it alone and looking at the plan
// (pending.go). A value that changes nothing is not listed, whatever it is
// called, and neither is one that a rule of the running plan covers (live.go).
// There is no list of fields that need a restart, and a custom VM type gets
// the same answers.
//
// Configurations are compared value by value (difference.go), and put together
// of old and new values to see what these do (mix.go).
package changes
