package main

import (
	"maps"

	"nexus/cmd/ledgerctl/internal/help"
)

// manual is the help of a verb: the files of package help, and the pages that stand beside
// their commands. A test holds every flag against the text.
var manual = allPages()

func allPages() map[string]string {
	pages := help.Pages()
	maps.Copy(pages, map[string]string{"bisect": bisectManual, "code": codeManual, "cost": manualCost, "watch": watchManual, "hook": hookManual, "service": serviceManual})
	return pages
}
