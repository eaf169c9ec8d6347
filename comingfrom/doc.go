// Package comingfrom makes a configuration of another program's definition of a VM, and reports what becomes of each
// part of it. It is pure: it reads no file but the text that it is given, and starts nothing.
//
// Every reader turns its text into a tree whose nodes are marked when their meaning is known. What has no
// mark in the end is reported, so nothing of the input can be lost without a word. A part that can't be carried over
// and without which the VM would be another one blocks: there is no configuration then, unless its user leaves the
// part out. See docs/decisions/0154-convert.md.
package comingfrom
