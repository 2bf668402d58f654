// Elements from data. Text always goes in as text: nothing here, or anywhere on the page, parses HTML.

export const $ = (id) => document.getElementById(id);

/** Properties that begin with "on" are listeners; those an element does not know become attributes. */
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const number = (value) => Math.round(value).toLocaleString("en-US");

/** Tells screen readers what changed elsewhere. */
export function say(text) {
  $("said").textContent = text;
}
