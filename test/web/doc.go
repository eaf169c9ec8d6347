// Package web tests the pages with real VMs: "vmmanager local" and its runners, QEMU with a guest
// that answers, and a browser. What needs no VM is tested beside the pages (manager/web).
package web
