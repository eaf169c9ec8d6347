// Package scrape answers Prometheus with the metrics of all VMs of a namespace: it asks their runners, which nothing
// but the manager can reach (docs/decisions/0149-metrics-of-vms.md).
//
//	scraper := scrape.New(scrape.Options{Namespace: namespace, VMs: list, Runner: find, Log: log})
//	mux.Handle("GET /metrics/vms", scraper)
//
// Runners are asked when Prometheus asks the manager, many at a time. Requests that come meanwhile or shortly
// afterwards share the answer. A runner that doesn't answer in time is left out, and asked last the next time.
//
// A guest may have broken out into its runner. So an answer is bounded, and of its lines only those are used that are
// metrics of VMs in the form of this program: families and labels that runners of this version have. The name of the VM
// is the one that the API server has.
package scrape
