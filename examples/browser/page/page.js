import { Client } from "./zlnode.js";

const show = (id, text) => { document.getElementById(id).textContent = text; };
const field = 30; // pixels

// The name outlives a reload of the page, so that the player is found again.
const name = sessionStorage.name ??= `guest-${crypto.randomUUID().slice(0, 8)}`;
show("player-name", name);

function log(line) {
  const all = document.getElementById("log");
  all.append(`${new Date().toISOString().slice(11, 23)} ${line}\n`);
  all.scrollTop = all.scrollHeight;
}

function place({ x, y }) {
  const dot = document.getElementById("player");
  dot.hidden = false;
  dot.style.left = `${x * field}px`;
  dot.style.top = `${y * field}px`;
}

const { url } = await (await fetch("server.json")).json();

const client = new Client(url, {
  onState(state, cause) {
    show("state", state);
    if (cause) show("reason", cause.message);
    log(cause ? `${state}: ${cause.message}` : state);
    if (state === "connected") login();
  },
  onPush(packet, value) {
    show("push", `${packet} ${JSON.stringify(value)}`);
    log(`push ${packet} ${JSON.stringify(value)}`);
    place(value);
  },
});

async function ask(packet, value) {
  try {
    const answer = await client.request(packet, value);
    show("answer", `${packet}: ${JSON.stringify(answer)}`);
    return answer;
  } catch (e) {
    show("answer", `${packet} failed: ${e.code ?? "–"}: ${e.message}`);
    log(`${packet} failed: ${e.code ?? "–"}: ${e.message}`);
  }
}

// login binds the player to the new Session: nothing of the old one goes over.
async function login() {
  const at = await ask("login", { name });
  if (!at) return;
  place(at);
  show("state", "playing");
}

for (const button of document.querySelectorAll("button[data-dx]")) {
  button.onclick = () => ask("move", { dx: Number(button.dataset.dx), dy: Number(button.dataset.dy) });
}
document.getElementById("leave").onclick = () => {
  try {
    client.send("leave", "you asked for it");
  } catch (e) {
    log(`leave: ${e.message}`);
  }
};
