// Looks at the explorer in chromium: each page at two widths and in both themes, by keys, without script, and while the
// ledger grows. Reports what is wrong as JSON; exits with 77 where chromium does not start. Usage: node browser.mjs NODE_MODULES CHROMIUM JSON
// with JSON = {link, session, turn, live, paths: {name: path}, previews: {name: {form, text, check}}, leak, pictures, brief, shots}: a page with a
// preview is the answer to its form, with a text, or with the first choice of a name. brief: the pages alone, light at
// 1280 px. shots: [{name, path, width, colorScheme, at}]: nothing but these pictures; at is the id of what stands at the top.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
const [modules, executablePath, spec] = process.argv.slice(2);
const { link, session, turn, live, paths, previews, leak, pictures, brief, shots } = JSON.parse(spec);
const require = createRequire(modules + '/');
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const base = new URL(link).origin;
const wrong = [];
const timeout = brief ? 180_000 : 30_000; // for each step; who asks for brief bounds the whole
const browser = await chromium.launch({ executablePath, timeout, args: ['--no-sandbox'] }).catch((e) => { console.error(String(e)); process.exit(77); });
const end = async () => { await browser.close(); console.log(JSON.stringify(wrong)); process.exit(); };
const check = (ok, where, what) => { if (!ok) wrong.push({ where, what }); };

// Nobody is logged in by loading the link, and Enter on its page is enough.
const contextOf = async (options) => {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(timeout);
  return context;
};
const first = await contextOf();
const door = await first.newPage();
await door.goto(link);
await door.waitForFunction(() => document.activeElement.matches('button'));
await door.keyboard.press('Enter');
await door.waitForSelector('header.top');
const storageState = await first.storageState();
const open = async (options, where) => {
  const context = await contextOf({ storageState, ...options });
  const page = await context.newPage();
  page.on('request', (r) => { if (!r.url().startsWith(base)) check(false, where, 'asks for ' + r.url()); });
  page.on('console', (m) => check(false, where, 'console: ' + m.text()));
  page.on('pageerror', (e) => check(false, where, 'error: ' + e.message));
  page.on('dialog', (d) => { check(false, where, 'a dialog'); d.dismiss(); });
  return [page, () => context.close()];
};

for (const { name, path, width, colorScheme, at } of shots ?? []) {
  const [page, close] = await open({ viewport: { width, height: 900 }, colorScheme }, name);
  const reply = await page.goto(base + path);
  check(reply.status() === 200, name, 'status ' + reply.status());
  if (at) await page.evaluate((id) => { const x = document.getElementById(id); scrollTo(0, x.getBoundingClientRect().top - document.querySelector('header.top').offsetHeight - 8); }, at);
  await page.screenshot({ path: `${pictures}/${name}.png` });
  await close();
}
if (shots) await end();

// reach goes to a page, and returns its reply.
const reach = async (page, name) => {
  const reply = await page.goto(base + paths[name]);
  const preview = previews[name];
  if (!preview) return reply;
  const form = page.locator(preview.form).first();
  if (preview.text) await form.locator('textarea').fill(preview.text);
  if (preview.check) await form.locator(`input[name=${preview.check}]`).first().check();
  const [answer] = await Promise.all([page.waitForResponse((r) => r.request().method() === 'POST'), form.locator('button').click()]);
  await page.waitForLoadState();
  return answer;
};

for (const name of Object.keys(paths)) {
  for (const width of brief ? [1280] : [390, 1280]) {
    for (const colorScheme of brief ? ['light'] : ['light', 'dark']) {
      const where = `${name}, ${width} px, ${colorScheme}`;
      const viewport = { width, height: 900 };
      const [page, close] = await open({ viewport, colorScheme }, where);
      const reply = await reach(page, name);
      check(reply.status() === 200, where, 'status ' + reply.status());
      const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor) === 'rgb(19, 20, 23)';
      check(dark === (colorScheme === 'dark'), where, 'the theme is not the one asked for');
      const over = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(await over() <= 0, where, 'wider than the window');
      if (pictures && ['light 1280', 'dark 390'].includes(`${colorScheme} ${width}`)) await page.screenshot({ path: `${pictures}/${name}-${width}.png` });
      await page.evaluate(() => { for (const d of document.querySelectorAll('details')) d.open = true; });
      await page.waitForTimeout(250);
      check(await over() <= 0, where, 'wider than the window with all folds open');
      const small = await page.evaluate(() => [...document.querySelectorAll('button, summary, select, input:not([type=hidden]):not([type=checkbox])')].filter((x) => x.getBoundingClientRect().height > 0 && x.getBoundingClientRect().height < 24).map((x) => x.outerHTML.slice(0, 90)));
      check(!small.length, where, 'lower than 24 px: ' + small[0]);
      await close();
      // With axe in it, which the page's policy would refuse; each width and theme once.
      if (!brief && (width === 390) !== (colorScheme === 'light')) continue;
      const tested = await contextOf({ storageState, viewport, colorScheme, bypassCSP: true });
      const view = await tested.newPage();
      await reach(view, name);
      await view.evaluate(() => { for (const d of document.querySelectorAll('details')) d.open = true; });
      await view.waitForTimeout(250);
      await view.evaluate(axe);
      for (const v of await view.evaluate(async () => (await window.axe.run()).violations.map((v) => v.id + ': ' + v.nodes.length + ' × ' + v.nodes[0].html.slice(0, 200) + ' ' + v.nodes[0].any.map((a) => a.message).join('; ').slice(0, 200)))) check(false, where, v);
      await tested.close();
    }
  }
}

if (brief) await end();

// part does a part; what throws in it is one more thing that is wrong.
const part = async (where, f) => { try { await f(where); } catch (e) { check(false, where, String(e).slice(0, 300)); } };

// Keys alone: to a session, along its turns, open a fold, to a turn, back, search, help.
await part('keys', async (where) => {
  const [page, close] = await open({ viewport: { width: 1280, height: 800 } }, where);
  const at = async (re, what) => { try { await page.waitForURL(re, { timeout: 5000 }); } catch { check(false, where, what + ' leads to ' + page.url()); } };
  await page.goto(base + '/ui/');
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await at(/\/ui\/s\//, 'Enter on a session');
  await page.goto(base + session);
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  check(await page.evaluate(() => document.activeElement.id) === 't2', where, 'j does not lead to the second turn');
  await page.keyboard.press('o');
  await page.waitForTimeout(400);
  check(await page.evaluate(() => document.querySelector('#t2 details.call pre')?.textContent.includes('make test') && [...document.querySelectorAll('#t2 pre')].some((p) => p.textContent.includes('a line of the output'))), where, 'o does not open the turn with its whole content');
  await page.keyboard.press(']');
  check(await page.evaluate(() => document.activeElement.id.match(/^t\d/)), where, '] leads to no turn');
  await page.keyboard.press('[');
  await page.keyboard.press('Enter');
  await at(/\/t\//, 'Enter on a turn');
  await page.keyboard.press('j');
  await page.waitForTimeout(300);
  await at(/\/t\//, 'j on a turn');
  await page.keyboard.press('x');
  await at(/\/x\//, 'x');
  await page.keyboard.press('/');
  await page.keyboard.type('export');
  await page.keyboard.press('Enter');
  await at(/search\?q=export/, '/');
  check(await page.locator('mark').count() > 0, where, 'the search marks nothing');
  await page.locator('h1').click();
  await page.keyboard.press('?');
  await at(/\/ui\/keys/, '?');
  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await at(/\/ui\/$/, 'g s');
  // The theme stays on the next page.
  await page.locator('form.theme button').focus();
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
  check(await page.evaluate(() => document.documentElement.dataset.theme) === 'dark', where, 'the theme does not change');
  await page.goto(base + session);
  check(await page.evaluate(() => getComputedStyle(document.body).backgroundColor) === 'rgb(19, 20, 23)', where, 'the theme is lost on the next page');
  await close();
});

// On a phone: each turn has its number to tap, the diamond in the tree leads to the compaction, no field makes the
// phone zoom, and nothing that is tapped is lower than 24 px.
await part('phone', async (where) => {
  const [page, close] = await open({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, javaScriptEnabled: false }, where);
  for (const name of Object.keys(paths)) {
    await page.goto(base + paths[name]);
    const wrong = await page.evaluate(() => {
      const box = (x) => x.getBoundingClientRect();
      const seen = (x) => box(x).width > 0 && box(x).left >= 0;
      const low = [...document.querySelectorAll('main input[type=checkbox], main input[type=radio], main table a, main .stats a, main .facts2 a, main .forked a, main .noted a, main .plain a, main summary, main .nearby a, main .crumbs a, main .windowbar a, main .pages a, main .meta a, .sources a, .lost a, .depth, .brand')].filter((x) => seen(x) && box(x).height < 24);
      const small = [...document.querySelectorAll('input:not([type=hidden]), select, textarea')].filter((x) => seen(x) && parseFloat(getComputedStyle(x).fontSize) < 16);
      const find = document.querySelector('.find input');
      return [...low.map((x) => 'lower than 24 px: ' + x.outerHTML.slice(0, 90)), ...small.map((x) => 'less than 16 px: ' + x.outerHTML.slice(0, 90)), ...[...document.querySelectorAll('.turn')].filter((x) => !x.querySelector('.depth') || box(x.querySelector('.depth')).width < 24).map((x) => 'no number to tap: ' + x.id), ...(document.documentElement.scrollWidth > innerWidth ? ['wider than the window'] : []), ...[...document.querySelectorAll('table.cards')].filter((x) => x.scrollWidth > x.parentElement.clientWidth || [...x.querySelectorAll('td')].some((d) => box(d).right > innerWidth + 1)).map(() => 'a table is cut'), ...(find && find.placeholder.length > 12 ? ['the words in the search are cut'] : [])];
    });
    if (wrong.length) check(false, `${where}, ${name}`, wrong[0]);
  }
  // The header lets nothing shine through.
  check(await page.evaluate(() => !/rgba|transparent|\//.test(getComputedStyle(document.querySelector('header.top')).backgroundColor)), where, 'the header is not opaque');
  // The filters are folded, and one tap opens them.
  await page.goto(base + '/ui/');
  const title = page.locator('.narrowed input[name=title]');
  check(!(await title.isVisible()), where, 'the filters stand before the first session');
  await page.locator('.narrowed summary').tap();
  check(await title.isVisible(), where, 'the filters do not open');
  await page.goto(base + '/ui/?state=open');
  check(await title.isVisible(), where, 'a filter that is set is not shown');
  // A number that is typed is the turn.
  await page.goto(base + session);
  await page.locator('input[name=turn]').tap();
  await page.keyboard.type('12');
  await Promise.all([page.waitForURL(/#t12$/), page.keyboard.press('Enter')]);
  await page.goto(base + session);
  await Promise.all([page.waitForURL(/\/t\//), page.locator('.turn.step .depth').first().tap()]);
  await page.goto(base + session);
  await Promise.all([page.waitForURL(/\/c\//), page.locator('.lanes svg a .hit').first().tap()]);
  await close();
});

// Search as one types: what is found stands there without Enter, and the address has the question.
await part('search', async (where) => {
  const [page, close] = await open({ viewport: { width: 1280, height: 800 } }, where);
  await page.goto(base + '/ui/search');
  await page.keyboard.type('expo');
  await page.keyboard.type('rt');
  await page.waitForSelector('.hits mark', { timeout: 5000 }).catch(() => check(false, where, 'nothing is found while one types'));
  check(/q=export/.test(page.url()), where, 'the address has no question: ' + page.url());
  check(await page.evaluate(() => document.activeElement.name) === 'q', where, 'the focus is lost');
  await close();
});

// Without script: the pages, what a fold holds, an act.
await part('script off', async (where) => {
  const [page, close] = await open({ viewport: { width: 1280, height: 800 }, javaScriptEnabled: false }, where);
  await page.goto(base + session);
  const fold = page.locator('#t2 details.call');
  await fold.locator('summary').click();
  await fold.locator('a', { hasText: 'Show it' }).click();
  check((await page.textContent('main')).includes('a line of the output'), where, 'the content of a fold is not on its page');
  await page.goto(base + turn);
  await page.fill('input[name=label]', 'by-hand');
  await page.click('button:has-text("Fork")');
  check(/\/ui\/s\//.test(page.url()) && (await page.textContent('main')).includes('by-hand'), where, 'a fork does not lead to its session');
  await close();
});

// A text is taken out everywhere, by keys and without script: what it reaches is shown first.
await part('taking out', async (where) => {
  const [page, close] = await open({ viewport: { width: 1280, height: 800 }, javaScriptEnabled: false }, where);
  await page.goto(base + '/ui/takeout');
  await page.locator('textarea').focus();
  await page.keyboard.type(leak);
  await page.keyboard.press('Tab');
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
  const preview = await page.textContent('main');
  check(/1 event of 1 session/.test(preview) && /no way back/.test(preview), where, 'the preview: ' + preview.slice(0, 200));
  await page.locator('input[name=ground]').focus();
  await page.keyboard.type('leak-1');
  await page.keyboard.press('Tab');
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
  check(/1 event of 1 session has a marker/.test(await page.textContent('main')), where, 'the act: ' + (await page.textContent('main')).slice(0, 200));
  await page.locator('.sections section a').first().click();
  check(/\[redacted\]/.test(await page.textContent('main')) && !(await page.content()).includes(leak), where, 'the session shows the text');
  await close();
});

// While the ledger grows: six tabs hear of it, by one stream, and none moves.
await part('live', async (where) => {
  const context = await browser.newContext({ storageState, viewport: { width: 1280, height: 700 } });
  let streams = 0;
  context.on('request', (r) => { if (r.url().endsWith('/ui/live')) streams++; });
  const tabs = [];
  for (let i = 0; i < 7; i++) {
    const p = await context.newPage();
    await p.goto(base + live);
    await p.evaluate(() => scrollTo(0, 120));
    tabs.push(p);
  }
  for (const [i, p] of tabs.entries()) {
    try { await p.waitForSelector('.news a', { timeout: 5000 }); } catch { check(false, where, `tab ${i} hears of nothing`); }
    check(await p.evaluate(() => scrollY) === 120, where, `tab ${i} moved`);
  }
  check(streams === 1, where, streams + ' streams');
  await tabs[0].close();
  await tabs[1].evaluate(() => document.querySelector('.news').replaceChildren());
  try { await tabs[1].waitForSelector('.news a', { timeout: 8000 }); } catch { check(false, where, 'nobody asks when the tab that asked is gone'); }
  await tabs[1].keyboard.press('n');
  await tabs[1].waitForURL(/from=last/, { timeout: 5000 }).catch(() => check(false, where, 'n does not lead to what is new'));
  await context.close();
});
await end();
