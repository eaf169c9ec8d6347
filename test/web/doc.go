// Package web tests the pages with real VMs: "vmmanager local" with its runners, QEMU with a guest that answers, and a
// browser. Tests that need no VM are in manager/web.
package web
