// Written by ledgerctl hook install --agent pi; ledgerctl hook uninstall --agent pi removes it.
//
// Nexus is the compactor: before pi compacts, its session is brought into the ledger, and
// the ledger's compaction is what pi stores. If that fails, pi compacts by itself. The
// commands get names and numbers; what was said is read from the session's file.
import { spawn } from "node:child_process";

const command: string[] = COMMAND;

// call gives ledgerctl an event. It returns what that answers, undefined for nothing.
function call(event: string, input: object, milliseconds: number, signal?: AbortSignal): Promise<any> {
	return new Promise((resolve) => {
		let child;
		try {
			child = spawn(command[0], [...command.slice(1), event], { stdio: ["pipe", "pipe", "ignore"], timeout: milliseconds, signal });
		} catch {
			return resolve(undefined);
		}
		let out = "";
		child.on("error", () => resolve(undefined));
		child.stdin.on("error", () => {}); // it ended before it read all
		child.stdout.setEncoding("utf8");
		child.stdout.on("data", (text: string) => (out += text));
		child.on("close", () => {
			try {
				resolve(JSON.parse(out));
			} catch {
				resolve(undefined);
			}
		});
		child.stdin.end(JSON.stringify(input));
	});
}

export default function (pi: any) {
	const of = (event: string, ctx: any) => ({
		hook_event_name: event,
		transcript_path: ctx.sessionManager.getSessionFile() ?? "",
		cwd: ctx.cwd,
	});
	pi.on("session_before_compact", async (event: any, ctx: any) => {
		const { preparation, branchEntries, customInstructions, signal } = event;
		const compact = {
			path: branchEntries.map((entry: any) => entry.id),
			keep_tokens: preparation.settings.keepRecentTokens,
			tokens_before: preparation.tokensBefore,
			focus: customInstructions,
		};
		const answer = await call("PreCompact", { ...of("PreCompact", ctx), compact }, 60_000, signal);
		if (answer?.compaction?.summary) return { compaction: answer.compaction };
	});
	pi.on("session_compact", async (_event: any, ctx: any) => {
		await call("PostCompact", of("PostCompact", ctx), 10_000);
	});
	pi.on("session_shutdown", async (_event: any, ctx: any) => {
		await call("SessionEnd", of("SessionEnd", ctx), 3_000);
	});
}
