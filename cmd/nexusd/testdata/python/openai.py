"""The part of OpenAI's library that the program of docs/RESPONSES.md uses, for tests."""

import json
import urllib.request


class Response:
    def __init__(self, body):
        self.id = body["id"]
        self.output_text = "".join(c["text"] for i in body["output"] for c in i.get("content", []) if c["type"] == "output_text")


class OpenAI:
    def __init__(self, base_url, api_key):
        self.base_url, self.api_key, self.responses = base_url, api_key, self

    def create(self, **body):
        headers = {"Content-Type": "application/json", "Authorization": "Bearer " + self.api_key}
        request = urllib.request.Request(self.base_url + "/responses", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as reply:
            return Response(json.load(reply))
