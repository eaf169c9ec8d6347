package monitoring_test

const (
	vmUID = "vmop-vm"
	byVM  = "{{namespace}}/{{name}}"
)

// none turns a sum or count of no series into 0.
const none = " or vector(0)"

// one returns a panel with one query.
func one(kind, title, unit, expr, legend, about string) panel {
	return panel{kind: kind, title: title, unit: unit, about: about, queries: []panelQuery{{expr, legend}}}
}

// wrong returns a panel with a number that should be 0.
func wrong(title, expr, about string) panel {
	p := one("stat", title, "short", expr+none, "", about)
	p.bad = 1
	return p
}

func graph(title, unit, about string, queries ...panelQuery) panel {
	return panel{kind: "timeseries", title: title, unit: unit, about: about, queries: queries}
}

// rate is the growth of a counter per second. increase is its growth between two points of a graph.
func rate(counter string) string { return "rate(" + counter + "{@}[$__rate_interval])" }

func increase(counter string) string { return "increase(" + counter + "{@}[$__rate_interval])" }

// busiest returns a panel with the ten VMs that have the highest value.
func busiest(title, unit, expr string) panel {
	return one("timeseries", title, unit, "topk(10, "+expr+")", byVM,
		"The ten VMs with the most. A click leads to the VM.")
}

// fleet is the dashboard for all VMs and their managers.
func fleet() dashboard {
	const notReady = `vmop_vm_condition{condition="Running",@} == 1 ` +
		`and ignoring (condition) vmop_vm_condition{condition="Ready",@} == 0`
	leads := one("stat", "Managers lead", "bool_yes_no",
		"min(max by (namespace) (leader_election_master_status{@}))", "", "No: in a namespace VMs are not managed.")
	leads.bad, leads.low = 1, true
	return dashboard{
		uid: "vmop-fleet", title: "VMs", selector: `namespace=~"$namespace"`,
		variables: []variable{{"namespace", "Namespace", "label_values(vmop_build_info, namespace)", true}},
		sections: []section{
			{"What is wrong", []panel{
				wrong("Alerts", `count(ALERTS{alertname=~"Vmop.+",alertstate="firing",@})`,
					"Of VMs and managers: docs/tasks/alerts.md has what to do."),
				wrong("VMs that failed", `sum(vmop_vms{phase="Failed",@})`, "They are to run, and don't."),
				wrong("VMs not ready", "count("+notReady+")", "The machine runs, and the guest does not."),
				wrong("VMs with problems", "count(vmop_vm_problems{@} > 0)", "Such as a disk without space."),
				wrong("VMs without metrics", "count(vmop_vm_scraped{@} == 0)",
					"Their runners don't answer the manager."),
				leads,
				one("table", "Alerts", "short", `ALERTS{alertname=~"Vmop.+",alertstate="firing",@}`, "", ""),
				one("table", "VMs with problems", "short", "vmop_vm_problems{@} > 0", byVM, ""),
			}},
			{"VMs", []panel{
				one("timeseries", "VMs by phase", "short", "sum by (phase) (vmop_vms{@})", "{{phase}}", ""),
				one("timeseries", "Time to start (95%)", "s", "histogram_quantile(0.95, sum by (le, step) "+
					"(rate(vmop_vm_start_seconds_bucket{@}[$__rate_interval])))", "{{step}}",
					"Until the container ran (pod), and from then until the guest did (machine)."),
				graph("CPUs", "short", "In use by QEMU, and those that guests have.",
					panelQuery{"sum(rate(vmop_vm_cpu_usage_seconds_total{@}[$__rate_interval]))", "in use"},
					panelQuery{"sum(vmop_vm_cpus{@})", "of guests"}),
				graph("Memory", "bytes", "In use by QEMU, and what guests have.",
					panelQuery{`sum(vmop_process_resident_memory_bytes{process="qemu",@})`, "in use"},
					panelQuery{"sum(vmop_vm_memory_bytes{@})", "of guests"}),
			}},
			{"Busiest VMs", []panel{
				busiest("CPUs in use", "short", rate("vmop_vm_cpu_usage_seconds_total")),
				busiest("Memory in use", "bytes", `vmop_process_resident_memory_bytes{process="qemu",@}`),
				busiest("Disk traffic", "Bps", "sum by (namespace, name) ("+
					rate("vmop_vm_storage_read_traffic_bytes_total")+" + "+rate("vmop_vm_storage_write_traffic_bytes_total")+")"),
				busiest("Network traffic", "Bps", "sum by (namespace, name) ("+
					rate("vmop_vm_network_receive_bytes_total")+" + "+rate("vmop_vm_network_transmit_bytes_total")+")"),
			}},
			{"Users", []panel{
				one("timeseries", "VMs of pools", "short", "sum by (namespace, pool, state) (vmop_pool_vms{@})",
					"{{namespace}}/{{pool}} {{state}}", "A pool without a free VM has none for its next user."),
				one("timeseries", "VMs asked for", "short", "sum by (result) ("+increase("vmop_pool_claims_total")+")",
					"{{result}}", "How often users have asked for a VM of a pool, and with which result."),
				graph("Sessions", "short", "", panelQuery{"sum(vmop_sessions{@})", "sessions"},
					panelQuery{"sum by (kind) (vmop_streams_open{@})", "{{kind}}"}),
				one("timeseries", "Log-ins refused", "short",
					"sum by (cause) ("+increase("vmop_logins_refused_total")+")",
					"{{cause}}", ""),
			}},
			managers(),
		},
	}
}

func managers() section {
	return section{"Managers", []panel{
		one("timeseries", "Reconciliations that fail", "ops", "sum by (namespace, controller) "+
			"(rate(controller_runtime_reconcile_errors_total{@}[$__rate_interval]))", "{{namespace}} {{controller}}", ""),
		one("timeseries", "Time of reconciliations (95%)", "s", "histogram_quantile(0.95, sum by (le, controller) "+
			"(rate(controller_runtime_reconcile_time_seconds_bucket{@}[$__rate_interval])))", "{{controller}}", ""),
		one("timeseries", "Waiting VMs", "short", "sum by (namespace, name) (workqueue_depth{@})",
			"{{namespace}} {{name}}", ""),
		one("timeseries", "Calls of the API server", "reqps",
			"sum by (code) (rate(rest_client_requests_total{@}[$__rate_interval]))", "{{code}}", ""),
		graph("What keeps managers", "short", "1 where it is so.",
			panelQuery{"max by (namespace) (vmop_apiserver_away{@})", "{{namespace}}: the API server is away"},
			panelQuery{"max by (namespace) (vmop_config_faulty{@})", "{{namespace}}: the configuration is faulty"}),
	}}
}

// vm is the dashboard for one VM.
func vm() dashboard {
	return dashboard{
		uid: vmUID, title: "VM", selector: `namespace="$namespace",name="$vm"`,
		variables: []variable{
			{"namespace", "Namespace", "label_values(vmop_vm_info, namespace)", false},
			{"vm", "VM", `label_values(vmop_vm_info{namespace="$namespace"}, name)`, false},
		},
		sections: []section{{"State", []panel{
			one("stat", "State", "short", "vmop_vm_state{@} == 1", "{{state}}", ""),
			one("stat", "Runs for", "s", "vmop_vm_uptime_seconds{@}", "", ""),
			wrong("Problems", "vmop_vm_problems{@}", "The VM's status has each."),
			one("stat", "Changes that await a restart", "short", "vmop_vm_pending_changes{@}", "", ""),
			one("stat", "CPUs", "short", "vmop_vm_cpus{@}", "", ""),
			one("stat", "Memory", "bytes", "vmop_vm_memory_bytes{@}", "", "Less what the balloon has taken."),
			one("state-timeline", "Conditions", "short", "vmop_vm_condition{@}", "{{condition}}", ""),
			one("table", "Alerts", "short", `ALERTS{alertname=~"Vmop.+",alertstate="firing",@}`, "", ""),
		}}, {"Processor and memory", []panel{
			graph("CPUs", "short", "In use by QEMU, and those that the guest has.",
				panelQuery{rate("vmop_vm_cpu_usage_seconds_total"), "in use"},
				panelQuery{"vmop_vm_cpus{@}", "of the guest"}),
			graph("Memory", "bytes", "", panelQuery{"vmop_process_resident_memory_bytes{@}", "in use by {{process}}"},
				panelQuery{"vmop_vm_memory_bytes{@}", "of the guest"}),
		}}, {"Disks", []panel{
			graph("Traffic", "Bps", "",
				panelQuery{rate("vmop_vm_storage_read_traffic_bytes_total"), "{{drive}} read"},
				panelQuery{rate("vmop_vm_storage_write_traffic_bytes_total"), "{{drive}} written"}),
			graph("Requests", "iops", "",
				panelQuery{rate("vmop_vm_storage_iops_read_total"), "{{drive}} read"},
				panelQuery{rate("vmop_vm_storage_iops_write_total"), "{{drive}} write"},
				panelQuery{rate("vmop_vm_storage_flush_requests_total"), "{{drive}} flush"}),
			graph("Time of a request", "s", "On average.", took("read", "iops_read"), took("write", "iops_write"),
				took("flush", "flush_requests")),
		}}, {"Network", []panel{
			graph("Traffic", "Bps", "Of taps. QEMU counts nothing of networks of its own (user).",
				panelQuery{rate("vmop_vm_network_receive_bytes_total"), "{{interface}} to the guest"},
				panelQuery{rate("vmop_vm_network_transmit_bytes_total"), "{{interface}} from the guest"}),
			graph("Packets that were lost", "pps", "", lost("receive", "errors"), lost("receive", "packets_dropped"),
				lost("transmit", "errors"), lost("transmit", "packets_dropped")),
		}}, {"Users and QEMU", []panel{
			one("timeseries", "Viewers", "short", "vmop_vm_consoles{@}", "{{kind}}", ""),
			one("timeseries", "Events of QEMU that were lost", "short",
				increase("vmop_qmp_events_dropped_total"), "lost",
				"Too many came: a guest may send them."),
		}}},
	}
}

// took is the duration of disk requests.
func took(what, count string) panelQuery {
	return panelQuery{
		"rate(vmop_vm_storage_" + what + "_times_seconds_total{@}[$__rate_interval]) / " +
			"(rate(vmop_vm_storage_" + count + "_total{@}[$__rate_interval]) > 0)", "{{drive}} " + what,
	}
}

func lost(direction, what string) panelQuery {
	return panelQuery{
		"rate(vmop_vm_network_" + direction + "_" + what + "_total{@}[$__rate_interval])",
		"{{interface}} " + direction + " " + what,
	}
}
