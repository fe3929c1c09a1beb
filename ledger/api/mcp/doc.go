// Package mcp offers a ledger to agents as six tools of the Model Context Protocol:
// search, expand, brief, remember, fork and status.
//
// ledgerctl mcp serves them on stdio ([Tools.ServeStdio]), nexusd on HTTP at /mcp
// ([Tools.Handler]). Each tool is a client of package api: it sends the requests that any
// program can send, and no rule of the ledger is here. It imports packages turns and api
// only, and it is the only one that imports the MCP SDK.
//
// What a tool returns is stored content, which may imitate an instruction. [frame] keeps
// it apart from the words of the tool: in the text of a result every line of stored
// content begins with "| ", and no other line does.
//
// Begin at [New] in server.go. Each tool has a file of its own.
package mcp
