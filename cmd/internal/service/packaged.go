package service

// restart is when a manager starts a program again. Status 2 is a configuration or a command
// that a program refuses: it would refuse it again.
const restart = `Restart=on-failure
RestartSec=5
RestartPreventExitStatus=2
`

// userLimits is what a unit may not do. All of it holds in a user's own manager too, which has
// no rights of the system: system call filters, and no namespace. git, which watch --code
// runs, needs none of it.
const userLimits = `NoNewPrivileges=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
`

// systemLimits is what the unit of the system may not do beside: it writes in its state
// folder alone, sees no home, device or other process, and has no capability. AF_NETLINK is
// how a program asks for the addresses of the machine.
const systemLimits = `CapabilityBoundingSet=
DevicePolicy=closed
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RemoveIPC=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
UMask=0077
`

// The places of a package of a Linux distribution.
const (
	SystemUser   = "nexus"
	SystemData   = "/var/lib/nexus"
	SystemConfig = "/etc/nexus/nexusd.toml"
)

// Packaged returns the units of systemd that a package of a Linux distribution installs, by
// their names below /usr/lib/systemd. The programs are in /usr/bin. The user units have the
// names of those that [Write] makes, which win over them.
func Packaged() map[string]string {
	user := func(about, page, after, command string) string {
		return `[Unit]
Description=` + about + `
Documentation=man:` + page + after + `

[Service]
ExecStart=` + command + `
` + restart + userLimits + `
[Install]
WantedBy=default.target
`
	}
	return map[string]string{
		"user/nexus-nexusd.service": user("Nexus: the ledger", "nexusd(8)", "", "/usr/bin/nexusd --data %h/.local/share/nexus"),
		"user/nexus-watch.service":  user("Nexus: bring transcripts of agents in", "ledgerctl-watch(1)", "\nAfter=nexus-nexusd.service", "/usr/bin/ledgerctl watch"),
		"system/nexusd.service": `[Unit]
Description=Nexus: the ledger
Documentation=man:nexusd(8)
After=network-online.target
Wants=network-online.target

[Service]
ExecStart=/usr/bin/nexusd --config ` + SystemConfig + ` --data ` + SystemData + `
EnvironmentFile=-/etc/nexus/nexusd.env
User=` + SystemUser + `
Group=` + SystemUser + `
StateDirectory=nexus
StateDirectoryMode=0700
WorkingDirectory=` + SystemData + `
` + restart + userLimits + systemLimits + `
[Install]
WantedBy=multi-user.target
`,
	}
}
