// Opens pages in chromium at two widths and in both themes, and reports what is wrong with
// them as JSON. Usage: node browser.mjs NODE_MODULES CHROMIUM FILE...
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
const [modules, executablePath, ...files] = process.argv.slice(2);
const require = createRequire(modules + '/');
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const wrong = [];
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
for (const file of files) {
  for (const width of [390, 1280]) {
    for (const colorScheme of ['light', 'dark']) {
      const say = what => wrong.push({ file, width, colorScheme, what });
      // The page as it is: nothing is asked of the network, nothing of the text runs.
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
      const page = await context.newPage();
      page.on('request', r => { if (!/^(file|data):/.test(r.url())) say('asks for ' + r.url()); });
      page.on('console', m => say('console: ' + m.text()));
      page.on('dialog', d => { say('a dialog'); d.dismiss(); });
      await page.goto('file://' + file);
      const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor) === 'rgb(22, 24, 27)';
      if (dark !== (colorScheme === 'dark')) say('the theme is not the one asked for');
      const wide = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (await wide() > 0) say('wider than the window');
      // Each fold opens by a key.
      const fold = page.locator('main summary').first();
      if (await fold.count()) {
        const was = await fold.evaluate(s => s.parentElement.open);
        await fold.focus();
        await page.keyboard.press('Enter');
        if (await fold.evaluate(s => s.parentElement.open) === was) say('Enter does not fold');
      }
      await page.evaluate(() => { for (const d of document.querySelectorAll('details')) d.open = true; });
      if (await wide() > 0) say('wider than the window with all folds open');
      await context.close();
      // With axe in it, which the page's policy would refuse; each width and theme once.
      if ((width === 390) !== (colorScheme === 'light')) continue;
      const tested = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, bypassCSP: true });
      const view = await tested.newPage();
      await view.goto('file://' + file);
      await view.evaluate(() => { for (const d of document.querySelectorAll('details')) d.open = true; });
      await view.evaluate(axe);
      const found = await view.evaluate(async () => (await window.axe.run()).violations.map(v => v.id + ': ' + v.nodes[0].html.slice(0, 200)));
      found.forEach(say);
      await tested.close();
    }
  }
}
await browser.close();
console.log(JSON.stringify(wrong));
