// What the pages do beside being pages: a fold that is opened loads its content, search as one types, keys, and what is new.
// Each works without this file too. Nothing here makes HTML of a text.
const $ = (s, in_ = document) => in_.querySelector(s);
const $$ = (s, in_ = document) => [...in_.querySelectorAll(s)];

// A fold that is opened loads its content once. The parser of a request makes a document in which nothing runs.
const load = (fold) => new Promise((done) => {
  const url = fold.dataset.load;
  if (!url) return done();
  delete fold.dataset.load;
  const r = new XMLHttpRequest();
  r.open('GET', url);
  r.responseType = 'document';
  r.setRequestHeader('X-Fragment', '1');
  r.onload = () => {
    const got = r.status === 200 && r.responseXML && $('.body', r.responseXML);
    const body = $('.body', fold);
    if (got) body.replaceChildren(...document.importNode(got, true).childNodes);
    else if (r.status === 401) location.reload();
    done();
  };
  r.onerror = () => { fold.dataset.load = url; done(); };
  r.send();
});
document.addEventListener('toggle', (e) => { if (e.target.open && e.target.dataset && e.target.dataset.load) load(e.target); }, true);

let on = null; // the turn or row that keys chose

// Search as one types: what the form would send is asked for when the typing pauses, and takes the place of what was
// found. An answer that a newer question has overtaken is dropped. The form works as before.
const asked = $('.searchform');
if (asked) {
  let wait = 0, running = null, last = new URLSearchParams(new FormData(asked)).toString();
  const look = () => {
    const query = new URLSearchParams(new FormData(asked)).toString();
    if (query === last) return;
    last = query;
    running?.abort();
    const r = running = new XMLHttpRequest();
    r.open('GET', `/ui/search?${query}`);
    r.responseType = 'document';
    r.setRequestHeader('X-Fragment', '1');
    r.onload = () => {
      const got = r.status === 200 && r.responseXML && $('.found', r.responseXML);
      if (r.status === 401) return location.reload();
      if (!got) return;
      on = null;
      $('.found').replaceChildren(...document.importNode(got, true).childNodes);
      history.replaceState(null, '', `/ui/search?${query}`);
    };
    r.send();
  };
  const soon = () => { clearTimeout(wait); wait = setTimeout(look, 250); };
  asked.addEventListener('input', soon);
  asked.addEventListener('change', soon);
}

// Keys.
const items = () => $$('.turn, .row, .hits li');
const go = (x) => {
  if (!x) return;
  on?.classList.remove('on');
  on = x;
  on.classList.add('on');
  (x.matches('.turn') ? x : $('a', x)).focus({ preventScroll: true });
  const box = x.getBoundingClientRect();
  if (box.top < 70 || box.bottom > innerHeight) x.scrollIntoView({ block: box.height > innerHeight - 90 ? 'start' : 'nearest' });
};
const near = (list, step) => {
  const at = on ? list.indexOf(on) : -1;
  if (at >= 0) return list[at + step];
  if (on) { // it is in another list
    const after = list.findIndex((x) => on.compareDocumentPosition(x) & Node.DOCUMENT_POSITION_FOLLOWING);
    return step > 0 ? list[after] : list[(after < 0 ? list.length : after) - 1];
  }
  const first = list.findIndex((x) => x.getBoundingClientRect().bottom > 80);
  return list[Math.max(first, 0)];
};
let g = 0;
document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest('input, select, textarea')) {
    if (e.key === 'Escape') e.target.blur?.();
    return;
  }
  if (g && Date.now() - g < 1200) {
    const to = { s: '/ui/', c: '/ui/cost', m: '/ui/memory', e: '/ui/events', h: '/ui/health' }[e.key];
    g = 0;
    if (to) { location.assign(to); return e.preventDefault(); }
  }
  const rel = (name) => { const a = $(`main a[rel="${name}"]`); if (a && !items().length) { a.click(); return true; } };
  switch (e.key) {
    case 'j': if (!rel('next')) go(near(items(), 1)); break;
    case 'k': if (!rel('prev')) go(near(items(), -1)); break;
    case ']': go(near($$('.turn:not(.step)'), 1)); break;
    case '[': go(near($$('.turn:not(.step)'), -1)); break;
    case 'o': {
      const folds = on ? $$('details', on) : $$('main details.fold');
      const open = folds.some((d) => !d.open);
      folds.slice(0, 40).forEach((d) => { d.open = open; });
      break;
    }
    case 'x': ((on && $('a[href*="/x/"]', on)) || $('main a[data-key="x"]'))?.click(); break;
    case 'n': $('.news a')?.click(); break;
    case 'g': g = Date.now(); break;
    case '/': $('.find input')?.focus(); $('.find input')?.select(); break;
    case '?': location.assign('/ui/keys'); break;
    case 'Enter': if (on && document.activeElement === on) { $('.depth, a', on)?.click(); break; } return;
    default: return;
  }
  e.preventDefault();
});

// What is new. One tab of a browser asks the ledger, and tells the others: a browser has six connections to a host.
const follows = document.body.dataset.live;
if (follows && navigator.locks && window.BroadcastChannel) {
  const channel = new BroadcastChannel('nexus-live');
  const news = $('.news');
  let n = 0;
  const tell = (href, text) => {
    let a = $('a', news);
    if (!a) {
      a = document.createElement('a');
      news.append(a);
    }
    a.href = href;
    a.textContent = text;
  };
  const hear = ({ data }) => {
    if (data === 'gone') return tell(location.href, 'The ledger closed or began anew: load the page again');
    const [session, kind] = data.split(' ');
    if (follows === 'all' ? kind !== 'turn.appended' && kind !== 'compaction.applied' : session !== follows) return;
    if (!/^(turn\.appended|compaction\.applied|session\.)/.test(kind)) return;
    n++;
    tell(follows === 'all' ? '/ui/' : `/ui/s/${follows}?from=last`, `${n} new`);
  };
  channel.onmessage = hear;
  navigator.locks.request('nexus-live', () => new Promise((release) => {
    const source = new EventSource('/ui/live');
    source.onmessage = (e) => { hear(e); channel.postMessage(e.data); };
    let opened = false;
    source.onopen = () => { opened = true; };
    source.onerror = () => { // it tries again by itself, unless it is refused: then nobody is logged in any more, or there are too many
      if (source.readyState !== EventSource.CLOSED) return;
      if (opened) { hear({ data: 'gone' }); channel.postMessage('gone'); }
      release();
    };
    addEventListener('pagehide', () => { source.close(); release(); }, { once: true });
  }));
}
