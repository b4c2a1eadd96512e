// Counts the time of an answer that is said aloud, and records it if the user presses the button: the microphone is asked for only
// then, the recording is a blob of this page, and nothing of it is sent.
import { begun, jsonOf, partsOf } from "./call.js";

const LOCAL = "This recording stays in this page and is sent nowhere. It is gone with the next question.";
const WHY_NOT = {
  NotAllowedError: "The browser did not give this page the microphone. The timer works without it.",
  NotFoundError: "The browser found no microphone. The timer works without it.",
};
WHY_NOT.OverconstrainedError = WHY_NOT.NotFoundError; // WebKit's, although nothing is asked but sound

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".spt"), call = begun(root), { about, over } = jsonOf(data);
  const s = (root.spoken ??= { limit: 90 });
  Object.assign(s, { root, parts: partsOf(root, ["spt-time", "spt-of", "spt-start", "spt-record", "spt-note", "spt-audio"]) });
  if (s.about !== about) anew(s, about);
  if (over && !s.over) stop(s);
  s.over = over;
  s.parts["spt-start"].onclick = () => (s.began === undefined ? start(s) : stop(s));
  s.parts["spt-record"].onclick = () => (s.recorder ? stop(s) : record(s));
  for (const button of root.querySelectorAll(".spt-limits button")) button.onclick = () => { s.limit = +button.dataset.seconds; show(s); };
  show(s);
  // Between two calls the elements stay; once the page is left, the microphone must be free.
  call.signal.addEventListener("abort", () => setTimeout(() => {
    if (root.isConnected) return;
    anew(s, "");
    mark(false);
  }));
  return call.end;
}

function anew(s, about) {
  silence(s);
  clearInterval(s.turn);
  if (s.url) URL.revokeObjectURL(s.url);
  Object.assign(s, { about, began: undefined, seconds: 0, url: undefined, turn: undefined });
  const audio = s.parts["spt-audio"];
  audio.hidden = true;
  audio.removeAttribute("src");
  note(s, "");
}

function start(s) {
  s.began = performance.now();
  s.seconds = 0;
  s.told = false;
  clearInterval(s.turn);
  s.turn = setInterval(() => show(s), 200);
  if (!s.recorder) note(s, "");
  show(s);
}

function stop(s) {
  clearInterval(s.turn);
  if (s.began !== undefined) {
    s.seconds = spent(s);
    s.began = undefined;
  }
  silence(s);
  show(s);
}

// Ends a recording, and gives the microphone back.
function silence(s) {
  const recorder = s.recorder;
  s.recorder = undefined;
  if (!recorder) return;
  if (recorder.state !== "inactive") recorder.stop();
  for (const track of recorder.stream.getTracks()) track.stop();
}

async function record(s) {
  if (!navigator.mediaDevices?.getUserMedia || !window.MediaRecorder) {
    note(s, "This browser gives this page no microphone: it needs https, or the app on one's own machine. The timer works without it.");
    return;
  }
  const about = s.about;
  note(s, "The browser asks for the microphone.");
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  } catch (error) {
    note(s, WHY_NOT[error.name] ?? "The microphone could not be opened. The timer works without it.");
    return;
  }
  if (s.about !== about || !s.root.isConnected || s.recorder) { // another question by now
    for (const track of stream.getTracks()) track.stop();
    return;
  }
  const parts = [], recorder = new MediaRecorder(stream);
  recorder.ondataavailable = (e) => parts.push(e.data);
  recorder.onstop = () => { if (s.about === about) offer(s, new Blob(parts, { type: parts[0]?.type })); }; // Firefox's recorder has forgotten it by now
  s.recorder = recorder;
  recorder.start();
  note(s, "Recording, in this page alone.");
  start(s);
}

function offer(s, blob) {
  if (s.url) URL.revokeObjectURL(s.url);
  s.url = URL.createObjectURL(blob);
  const audio = s.parts["spt-audio"];
  audio.src = s.url;
  audio.hidden = false;
  note(s, LOCAL);
}

// The page's button that follows the timer is its main one only then: attnviz/ui/practice.css.
const mark = (spoken) => document.documentElement.toggleAttribute("data-spoken", spoken);

const spent = (s) => (s.began === undefined ? s.seconds : (performance.now() - s.began) / 1000);

const written = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

function note(s, text) {
  s.parts["spt-note"].textContent = text;
}

function show(s) {
  const seconds = spent(s), runs = s.began !== undefined, over = seconds >= s.limit;
  s.parts["spt-time"].textContent = written(seconds);
  s.parts["spt-of"].textContent = `of ${written(s.limit)}`;
  s.root.querySelector(".spt-bar i").style.width = `${Math.min(100, (100 * seconds) / s.limit)}%`;
  s.root.classList.toggle("over", over);
  s.root.classList.toggle("fresh", !runs && !seconds && !s.over);
  mark(runs || seconds > 0);
  s.parts["spt-start"].textContent = runs ? "Stop" : seconds ? "Start again" : "Start";
  s.parts["spt-record"].textContent = s.recorder ? "Stop recording" : "Record yourself";
  s.parts["spt-record"].setAttribute("aria-pressed", s.recorder ? "true" : "false");
  for (const button of s.root.querySelectorAll(".spt-limits button")) button.setAttribute("aria-pressed", +button.dataset.seconds === s.limit ? "true" : "false");
  if (runs && over && !s.told) {
    s.told = true;
    note(s, `${s.limit === 90 ? "90 seconds" : "2 minutes"} are over: come to an end.`);
  }
}
